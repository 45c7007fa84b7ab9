import type { GrantPattern } from '../api/grants.ts';
import type { InputOption } from '../api/inputs.ts';
import { list, type Loose, record, text } from '../harness/loose.ts';
import type { Stage } from './half.ts';
import { grantFor } from './subject.ts';
import type { InputAnswer, InputDraft } from '../api/inputs.ts';

type Draft = Omit<InputDraft, 'id' | 'expires_at'>;
type Kind = InputOption['kind'];

const kinds: readonly Kind[] = ['allow_once', 'allow_always', 'reject_once', 'reject_always'];

/** The options of a permission request, in our terms. */
export function optionsOf(raw: unknown): InputOption[] {
  return list(raw)
    .slice(0, 100)
    .flatMap((entry) => {
      const option = record(entry);
      const id = text(option?.optionId);
      if (id === null) return [];
      const kind = kinds.find((one) => one === option?.kind) ?? 'choice';
      return { id, label: (text(option?.name) ?? id).slice(0, 500), kind };
    });
}

const first = (options: InputOption[], wanted: readonly Kind[]): InputOption | null => {
  for (const kind of wanted) {
    const found = options.find((option) => option.kind === kind);
    if (found) return found;
  }
  return null;
};

/** The option that says no; null when there is none. */
export const rejecting = (options: InputOption[]): InputOption | null =>
  first(options, ['reject_once', 'reject_always']);

/** The option to take without a question, by the run's rule or by what a person has allowed for good, which is logged. */
export function unasked(
  { spec, journal }: Stage,
  options: InputOption[],
  category: string | null,
  subject: GrantPattern | null,
): InputOption | null {
  const { permission_mode: mode } = spec;
  const byRule =
    mode === 'full' || (mode === 'accept_edits' && ['edit', 'read', 'search'].some((kind) => kind === category));
  if (byRule) return first(options, ['allow_once', 'allow_always']);
  const grant = grantFor(subject, spec.grants);
  const once = first(options, ['allow_once']);
  if (!grant || !once) return null;
  const sentence = `Allowed without asking, by the grant ${grant.id}: ${grant.tool}: ${grant.pattern}`;
  journal.event('log', { level: 'info', stream: 'daemon', text: sentence }, 'daemon');
  return once;
}

/** The option by which a person allows for good, with an agent that offers none of its own: it is told `once`. */
const alwaysHere: InputOption = {
  id: 'agentctl:always',
  label: 'Always allow just this in this project',
  kind: 'allow_always',
};

/** A permission request as a question that can be answered for good, where one can say what that would allow. */
export function grantable(draft: Draft, grant: GrantPattern | null): Draft {
  const once = draft.options.some(({ kind }) => kind === 'allow_once');
  const always = draft.options.some(({ kind }) => kind === 'allow_always');
  return { ...draft, grant, options: grant && once && !always ? [...draft.options, alwaysHere] : draft.options };
}

/** The agent's own option for the one that a person took. */
export const ownOption = (id: string, options: InputOption[]): string | undefined =>
  id === alwaysHere.id ? options.find(({ kind }) => kind === 'allow_once')?.id : id;

/** A permission request as a question. */
export function permissionDraft(call: Loose | null, options: InputOption[]): Draft {
  const title = text(call?.title) ?? text(call?.kind) ?? 'A tool';
  const input = record(call?.rawInput);
  const command =
    text(input?.command) ??
    list(call?.content)
      .map((entry) => text(record(record(entry)?.content)?.text))
      .find(Boolean);
  return {
    kind: 'permission',
    title: title.slice(0, 500),
    message: command && command !== title ? command.slice(0, 8192) : null,
    tool_call_id: text(call?.toolCallId),
    options,
    allow_text: false,
    schema: null,
    grant: null,
  };
}

/** The values that a property of a form's schema lets one choose from. */
const choices = (property: Loose | null): InputOption[] => {
  const named = list(property?.oneOf ?? property?.anyOf).flatMap((entry) => {
    const id = text(record(entry)?.const);
    return id === null ? [] : { id, label: text(record(entry)?.title) ?? id, kind: 'choice' as const };
  });
  if (named.length > 0) return named.slice(0, 100);
  return list(property?.enum).flatMap((entry) => {
    const id = text(entry);
    return id === null ? [] : { id, label: id, kind: 'choice' as const };
  });
};

/** The property of a form that a choice, or a text, answers: the required one, otherwise the first. */
function mainProperty(schema: Loose | null): [name: string, property: Loose | null] | null {
  const properties = Object.entries(record(schema?.properties) ?? {});
  const required = list(schema?.required);
  const found = properties.find(([name]) => required.includes(name)) ?? properties[0];
  return found ? [found[0], record(found[1])] : null;
}

/** Characters of a form's schema, as JSON, that a person can be asked to fill in. */
export const longestForm = 262_144;

/** A form as a question. */
export function formDraft(params: Loose): Draft {
  const schema = record(params.requestedSchema);
  const main = mainProperty(schema);
  const options = choices(main?.[1] ?? null);
  const message = text(params.message) ?? '';
  const title = text(main?.[1]?.title) ?? (message || 'A question');
  return {
    kind: 'question',
    title: title.slice(0, 500),
    message: message === '' || message === title ? null : message.slice(0, 8192),
    tool_call_id: text(params.toolCallId),
    options,
    allow_text: main !== null && options.length === 0 && (main[1]?.type ?? 'string') === 'string',
    schema,
    grant: null,
  };
}

/** What a person's answer means for a form; null declines it. */
export function formContent(params: Loose, answer: InputAnswer): Record<string, unknown> | null {
  if ('cancel' in answer) return null;
  if ('content' in answer) return answer.content;
  const main = mainProperty(record(params.requestedSchema));
  if (!main) return {};
  const value = 'text' in answer ? answer.text : answer.option_id;
  return { [main[0]]: main[1]?.type === 'array' ? [value] : value };
}
