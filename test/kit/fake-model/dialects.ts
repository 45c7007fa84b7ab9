import { randomUUID } from 'node:crypto';
import type { Asked, Call, Reply, Schema, Step, Tokens, Tool } from './scenario.ts';

/* eslint-disable typescript/no-explicit-any -- bodies of four foreign formats, read as far as they are needed */
type Any = any;

/** One server-sent event; `null` for the name of those that have none. `hang` stops the stream without an end. */
export type Piece = [name: string | null, data: unknown] | 'hang';

/** A wire format: how a request is read, and how an answer is written, streamed and whole. */
export interface Dialect {
  read(body: Any, path: string): Asked;
  stream(reply: Reply): Generator<Piece>;
  whole(reply: Reply): unknown;
  error(error: NonNullable<Step['error']>): unknown;
}
export type DialectName = 'anthropic' | 'chat' | 'responses' | 'gemini';

const id = (prefix: string): string => prefix + randomUUID().replaceAll('-', '').slice(0, 24);
const listOf = (value: Any): Any[] =>
  value === undefined || value === null ? [] : Array.isArray(value) ? value : [value];
const textOf = (content: Any): string =>
  typeof content === 'string'
    ? content
    : listOf(content)
        .map((block: Any) => (typeof block === 'string' ? block : (block?.text ?? block?.input_text ?? '')))
        .join('\n');
const chunks = (text: string): string[] =>
  text.match(new RegExp(`[\\s\\S]{1,${Math.max(12, Math.ceil(text.length / 40))}}`, 'g')) ?? [];
const argumentText = (call: Call): string => ('input' in call ? call.input : JSON.stringify(call.args));
const argumentsOf = (call: Call): Record<string, unknown> => ('args' in call ? call.args : {});
const now = (): number => Math.floor(Date.now() / 1000);

const anthropic: Dialect = {
  read(body) {
    const turns = [{ role: 'system', text: textOf(body.system), calls: 0 }];
    for (const { role, content } of listOf(body.messages)) {
      const blocks: Any[] = typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content);
      if (blocks.some(({ type }) => type === 'tool_result')) turns.push({ role: 'tool', text: '', calls: 0 });
      const text = textOf(blocks.filter(({ type }) => type === 'text'));
      const calls = blocks.filter(({ type }) => type === 'tool_use').length;
      if (text !== '' || calls > 0) turns.push({ role, text, calls });
    }
    const tools = listOf(body.tools)
      .filter((tool) => tool.input_schema)
      .map(({ name, input_schema: schema }): Tool => ({ name, schema }));
    const form = body.output_config?.format?.schema ?? body.output_format?.schema;
    return { turns, tools, stream: Boolean(body.stream), model: body.model ?? '', form };
  },
  *stream({ model, thinking, text, calls, usage: used, hang }) {
    const usage = (output: number) => ({
      input_tokens: used.input,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: used.cached,
      output_tokens: output,
    });
    const message = {
      id: id('msg_'),
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
    };
    yield ['message_start', { type: 'message_start', message: { ...message, usage: usage(1) } }];
    let index = 0;
    function* block(content_block: unknown, deltas: unknown[]): Generator<Piece> {
      yield ['content_block_start', { type: 'content_block_start', index, content_block }];
      for (const delta of deltas) yield ['content_block_delta', { type: 'content_block_delta', index, delta }];
      yield ['content_block_stop', { type: 'content_block_stop', index }];
      index++;
    }
    if (thinking) {
      const deltas = chunks(thinking).map((piece): unknown => ({ type: 'thinking_delta', thinking: piece }));
      yield* block({ type: 'thinking', thinking: '', signature: '' }, [
        ...deltas,
        { type: 'signature_delta', signature: 'ZmFrZQ==' },
      ]);
    }
    if (text)
      yield* block(
        { type: 'text', text: '' },
        chunks(text).map((piece) => ({ type: 'text_delta', text: piece })),
      );
    if (hang) return yield 'hang';
    for (const call of calls) {
      const deltas = chunks(argumentText(call)).map((partial_json) => ({ type: 'input_json_delta', partial_json }));
      yield* block({ type: 'tool_use', id: id('toolu_'), name: call.name, input: {} }, deltas);
    }
    const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
    yield [
      'message_delta',
      { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: usage(used.output) },
    ];
    yield ['message_stop', { type: 'message_stop' }];
  },
  whole: ({ model, text, calls, usage }) => ({
    id: id('msg_'),
    type: 'message',
    role: 'assistant',
    model,
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    content: [
      ...(text ? [{ type: 'text', text }] : []),
      ...calls.map((call) => ({ type: 'tool_use', id: id('toolu_'), name: call.name, input: argumentsOf(call) })),
    ],
    usage: { input_tokens: usage.input, cache_read_input_tokens: usage.cached, output_tokens: usage.output },
  }),
  error: ({ status, message = 'scripted error' }) => ({
    type: 'error',
    error: {
      type: status === 401 ? 'authentication_error' : status === 429 ? 'rate_limit_error' : 'api_error',
      message,
    },
  }),
};

const openaiError: Dialect['error'] = ({ status, message = 'scripted error' }) => ({
  error: {
    message,
    type: status === 401 ? 'invalid_request_error' : 'server_error',
    code: status === 401 ? 'invalid_api_key' : null,
  },
});

const chatUsage = ({ input, cached, output, reasoning }: Tokens) => ({
  prompt_tokens: input + cached,
  completion_tokens: output,
  total_tokens: input + cached + output,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning },
});

const chat: Dialect = {
  read(body) {
    const turns = listOf(body.messages).map(({ role, content, tool_calls }) => ({
      role: role === 'developer' ? 'system' : String(role),
      text: textOf(content),
      calls: listOf(tool_calls).length,
    }));
    const tools = listOf(body.tools)
      .filter((tool) => tool.function)
      .map((tool): Tool => ({ name: tool.function.name, schema: tool.function.parameters ?? {} }));
    return {
      turns,
      tools,
      stream: Boolean(body.stream),
      model: body.model ?? '',
      form: body.response_format?.json_schema?.schema,
    };
  },
  *stream({ model, thinking, text, calls, usage, hang }) {
    const base = { id: id('chatcmpl-'), object: 'chat.completion.chunk', created: now(), model };
    const piece = (delta: unknown, finish_reason: string | null = null): Piece => [
      null,
      { ...base, choices: [{ index: 0, delta, finish_reason }] },
    ];
    yield piece({ role: 'assistant', content: '' });
    for (const one of chunks(thinking)) yield piece({ reasoning_content: one });
    for (const one of chunks(text)) yield piece({ content: one });
    if (hang) return yield 'hang';
    for (const [index, call] of calls.entries()) {
      yield piece({
        tool_calls: [{ index, id: id('call_'), type: 'function', function: { name: call.name, arguments: '' } }],
      });
      for (const one of chunks(argumentText(call)))
        yield piece({ tool_calls: [{ index, function: { arguments: one } }] });
    }
    yield piece({}, calls.length > 0 ? 'tool_calls' : 'stop');
    yield [null, { ...base, choices: [], usage: chatUsage(usage) }];
    yield [null, '[DONE]'];
  },
  whole: ({ model, text, calls, usage }) => ({
    id: id('chatcmpl-'),
    object: 'chat.completion',
    created: now(),
    model,
    usage: chatUsage(usage),
    choices: [
      {
        index: 0,
        finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
        message: {
          role: 'assistant',
          content: text || null,
          ...(calls.length > 0 && {
            tool_calls: calls.map((call) => ({
              id: id('call_'),
              type: 'function',
              function: { name: call.name, arguments: argumentText(call) },
            })),
          }),
        },
      },
    ],
  }),
  error: openaiError,
};

const responses: Dialect = {
  read(body) {
    const turns = [{ role: 'system', text: String(body.instructions ?? ''), calls: 0 }];
    const input: Any[] = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : listOf(body.input);
    for (const item of input) {
      const type = String(item.type ?? '');
      if (type.endsWith('_call_output')) turns.push({ role: 'tool', text: textOf(item.output), calls: 0 });
      else if (type.endsWith('_call')) {
        // Calls that were made side by side are one turn.
        const last = turns.at(-1);
        if (last?.role === 'assistant' && last.calls > 0) last.calls++;
        else turns.push({ role: 'assistant', text: '', calls: 1 });
      } else if (item.role)
        turns.push({ role: item.role === 'developer' ? 'system' : item.role, text: textOf(item.content), calls: 0 });
    }
    const tools: Tool[] = [];
    const collect = (list: Any, namespace?: string): void => {
      for (const { type, name, parameters, tools: inner } of listOf(list)) {
        if (type === 'function')
          tools.push({ name, schema: (parameters ?? {}) as Schema, ...(namespace === undefined ? {} : { namespace }) });
        else if (type === 'custom') {
          tools.push({
            name,
            custom: true,
            schema: {},
            ...(namespace === undefined || namespace === 'functions' ? {} : { namespace }),
          });
        } else if (type === 'namespace') collect(inner, name);
      }
    };
    collect(body.tools);
    // Newer Codex models get their tools in the input.
    for (const item of input) if (item.type === 'additional_tools') collect(item.tools);
    return { turns, tools, stream: Boolean(body.stream), model: body.model ?? '', form: body.text?.format?.schema };
  },
  *stream({ model, thinking, text, calls, usage, hang }) {
    const response_id = id('resp_');
    const output: unknown[] = [];
    let sequence_number = 0;
    const event = (type: string, fields: object): Piece => [
      type,
      { type, sequence_number: sequence_number++, ...fields },
    ];
    const response = (status: string, more = {}) => ({
      id: response_id,
      object: 'response',
      created_at: now(),
      status,
      model,
      output,
      parallel_tool_calls: true,
      tools: [],
      error: null,
      ...more,
    });
    yield event('response.created', { response: response('in_progress') });
    yield event('response.in_progress', { response: response('in_progress') });
    function* item(begun: unknown, done: unknown, inner: (place: object) => Generator<Piece>): Generator<Piece> {
      const output_index = output.length;
      yield event('response.output_item.added', { output_index, item: begun });
      yield* inner({ output_index, item_id: (begun as { id: string }).id });
      output.push(done);
      yield event('response.output_item.done', { output_index, item: done });
    }
    if (thinking) {
      const begun = { id: id('rs_'), type: 'reasoning', summary: [] };
      const part = (words: string) => ({ type: 'summary_text', text: words });
      yield* item(begun, { ...begun, summary: [part(thinking)], encrypted_content: 'ZmFrZQ==' }, function* (place) {
        const at = { ...place, summary_index: 0 };
        yield event('response.reasoning_summary_part.added', { ...at, part: part('') });
        for (const delta of chunks(thinking)) yield event('response.reasoning_summary_text.delta', { ...at, delta });
        yield event('response.reasoning_summary_text.done', { ...at, text: thinking });
        yield event('response.reasoning_summary_part.done', { ...at, part: part(thinking) });
      });
    }
    if (text) {
      const begun = { id: id('msg_'), type: 'message', status: 'in_progress', role: 'assistant', content: [] };
      const part = (words: string) => ({ type: 'output_text', text: words, annotations: [] });
      yield* item(begun, { ...begun, status: 'completed', content: [part(text)] }, function* (place) {
        const at = { ...place, content_index: 0 };
        yield event('response.content_part.added', { ...at, part: part('') });
        for (const delta of chunks(text)) yield event('response.output_text.delta', { ...at, delta });
        if (hang) return yield 'hang';
        yield event('response.output_text.done', { ...at, text });
        yield event('response.content_part.done', { ...at, part: part(text) });
      });
    }
    if (hang) return yield 'hang';
    for (const call of calls) {
      const custom = 'input' in call;
      const base = {
        id: id('fc_'),
        type: custom ? 'custom_tool_call' : 'function_call',
        call_id: id('call_'),
        name: call.name,
      };
      const shape = (status: string, words: string) => ({
        ...base,
        status,
        ...(call.namespace === undefined ? {} : { namespace: call.namespace }),
        [custom ? 'input' : 'arguments']: words,
      });
      const verb = custom ? 'response.custom_tool_call_input' : 'response.function_call_arguments';
      yield* item(shape('in_progress', ''), shape('completed', argumentText(call)), function* (place) {
        for (const delta of chunks(argumentText(call))) yield event(`${verb}.delta`, { ...place, delta });
        yield event(`${verb}.done`, { ...place, [custom ? 'input' : 'arguments']: argumentText(call) });
      });
    }
    const { input, cached, output: written, reasoning } = usage;
    const figures = {
      input_tokens: input + cached,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: written,
      output_tokens_details: { reasoning_tokens: reasoning },
      total_tokens: input + cached + written,
    };
    yield event('response.completed', { response: response('completed', { usage: figures }) });
  },
  whole(reply) {
    let last: unknown;
    for (const piece of responses.stream(reply))
      if (piece !== 'hang') last = (piece[1] as { response?: unknown }).response;
    return last;
  },
  error: openaiError,
};

const geminiUsage = ({ input, cached, output, reasoning }: Tokens) => ({
  promptTokenCount: input + cached,
  cachedContentTokenCount: cached,
  candidatesTokenCount: output - reasoning,
  thoughtsTokenCount: reasoning,
  totalTokenCount: input + cached + output,
});

const gemini: Dialect = {
  read(body, path) {
    const turns = [{ role: 'system', text: textOf(body.systemInstruction?.parts), calls: 0 }];
    for (const { role, parts: raw } of listOf(body.contents)) {
      const parts = listOf(raw);
      if (parts.some((part) => part.functionResponse)) turns.push({ role: 'tool', text: '', calls: 0 });
      const calls = parts.filter((part) => part.functionCall).length;
      const text = textOf(parts.filter((part) => part.text && !part.thought));
      if (text !== '' || calls > 0) turns.push({ role: role === 'model' ? 'assistant' : 'user', text, calls });
    }
    const tools = listOf(body.tools).flatMap((tool) =>
      listOf(tool.functionDeclarations).map((one): Tool => ({
        name: one.name,
        schema: one.parametersJsonSchema ?? one.parameters ?? {},
      })),
    );
    const config = body.generationConfig ?? {};
    const model = /models\/([^:/]+)/.exec(path)?.[1] ?? '';
    return {
      turns,
      tools,
      stream: path.includes(':stream'),
      model,
      form: config.responseJsonSchema ?? config.responseSchema,
    };
  },
  *stream({ model, thinking, text, calls, usage, hang }) {
    const base = { modelVersion: model, responseId: id('') };
    const piece = (parts: unknown[], more = {}): Piece => [
      null,
      {
        candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
        usageMetadata: geminiUsage(usage),
        ...base,
      },
    ];
    for (const one of chunks(thinking)) yield piece([{ text: one, thought: true }]);
    for (const one of chunks(text)) yield piece([{ text: one }]);
    if (hang) return yield 'hang';
    for (const call of calls)
      yield piece([{ functionCall: { id: id('fc_'), name: call.name, args: argumentsOf(call) } }]);
    yield piece([{ text: '' }], { finishReason: 'STOP' });
  },
  whole: ({ model, text, calls, usage }) => ({
    candidates: [
      {
        index: 0,
        finishReason: 'STOP',
        content: {
          role: 'model',
          parts: [
            ...(text ? [{ text }] : []),
            ...calls.map((call) => ({ functionCall: { id: id('fc_'), name: call.name, args: argumentsOf(call) } })),
          ],
        },
      },
    ],
    usageMetadata: geminiUsage(usage),
    modelVersion: model,
  }),
  error: ({ status, message = 'scripted error' }) => ({ error: { code: status, message, status: 'INTERNAL' } }),
};

export const dialects: Record<DialectName, Dialect> = { anthropic, chat, responses, gemini };

/** The dialect of a request by its path; any prefix before it is taken. */
export function dialectOf(path: string): DialectName | null {
  if (path.endsWith('/messages')) return 'anthropic';
  if (path.endsWith('/chat/completions')) return 'chat';
  if (path.endsWith('/responses')) return 'responses';
  return /:(streamG|g)enerateContent$/.test(path) ? 'gemini' : null;
}
