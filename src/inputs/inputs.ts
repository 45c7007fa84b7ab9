import { isDeepStrictEqual } from 'node:util';
import { Ajv } from 'ajv';
import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { InputAnswer, InputDraft, InputRequest, RunInput } from '../api/inputs.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createStore, toInput } from './store.ts';

/** Questions of agents to a person: durable, answered once, first answer counts. */
export function createInputs({ db, clock }: { db: Db; clock: Clock }) {
  const store = createStore(db);

  return {
    list(organization: string, filter: { status?: string[]; run_id?: string }, paging: Paging): Page<InputRequest> {
      return toPage(store.list(organization, filter, paging.after, paging.limit + 1), paging, toInput);
    },

    /** The run's requests that nobody has answered, oldest first. */
    pending: (run: string): InputRequest[] => store.ofRun(run).filter(({ status }) => status === 'pending'),

    /** Answers that a runner may not have heard of yet. */
    answers: (run: string): { request_id: string; answer: InputAnswer }[] =>
      store
        .ofRun(run)
        .filter(({ status, answer }) => answer !== null && (status === 'answered' || status === 'rejected'))
        .map(({ id, answer }) => ({ request_id: id, answer: answer as InputAnswer })),

    /** Keeps a request that a runner made; undefined when it is known already. */
    add(_tx: Tx, run: { id: string; organization_id: string }, draft: InputDraft): InputRequest | undefined {
      if (store.find(draft.id)) return undefined;
      const now = iso(clock.now());
      const request: InputRequest = {
        ...draft,
        organization_id: run.organization_id,
        run_id: run.id,
        status: 'pending',
        answer: null,
        answered_by: null,
        created_at: now,
        updated_at: now,
      };
      store.add(request);
      return request;
    },

    /**
     * Takes a person's answer. Answers the request and what to tell the runner; `always` when it is for good, `repeated` when just this answer was given
     * before. Throws `not_found`, `ambiguous_input_request`, `invalid_state`, `input_already_resolved`, `invalid_request`.
     */
    answer(
      _tx: Tx,
      run: string,
      body: RunInput,
      by: string,
    ): { request: InputRequest; answer: InputAnswer; always: boolean; repeated: boolean } {
      const all = store.ofRun(run);
      const request = body.request_id === undefined ? only(all) : all.find(({ id }) => id === body.request_id);
      if (!request) throw new Fault('not_found', `This run has no input request ${body.request_id}.`);
      const { answer, rejects, always } = readAnswer(request, body);
      if (request.status !== 'pending') {
        if (isDeepStrictEqual(request.answer, answer)) return { request, answer, always, repeated: true };
        if (request.status === 'answered' || request.status === 'rejected')
          throw new Fault('input_already_resolved', 'Somebody has answered this otherwise already.', {
            details: { status: request.status, answered_by: request.answered_by },
          });
        throw new Fault('invalid_state', `This request is ${request.status}.`, { details: { state: request.status } });
      }
      store.settle(request.id, {
        status: rejects ? 'rejected' : 'answered',
        answer: answer as Record<string, unknown>,
        answered_by: by,
        updated_at: iso(clock.now()),
      });
      return { request: store.find(request.id)!, answer, always, repeated: false };
    },

    /** A request found its end without a person. False when it is settled already. */
    close: (_tx: Tx, id: string, status: 'expired' | 'cancelled'): boolean =>
      store.settle(id, { status, updated_at: iso(clock.now()) }),
  };
}
export type Inputs = ReturnType<typeof createInputs>;

function only(all: InputRequest[]): InputRequest {
  const pending = all.filter(({ status }) => status === 'pending');
  if (pending.length > 1)
    throw new Fault('ambiguous_input_request', 'Several requests are pending: name one in request_id.', {
      details: { request_ids: pending.map(({ id }) => id) },
    });
  const request = pending[0] ?? all.at(-1);
  if (!request) throw new Fault('invalid_state', 'This run asks for nothing.', { details: { state: 'none' } });
  return request;
}

function readAnswer(
  request: InputRequest,
  body: RunInput,
): {
  answer: InputAnswer;
  rejects: boolean;
  always: boolean;
} {
  const { option_id, text, content, cancel } = body;
  const refuse = (message: string, path: string) =>
    new Fault('invalid_request', message, { details: { errors: [{ path, message }] } });
  if ([option_id, text, content, cancel].filter((form) => form !== undefined).length !== 1)
    throw refuse('Give exactly one of option_id, text, content and cancel.', '');
  if (cancel) return { answer: { cancel: true }, rejects: true, always: false };
  if (option_id !== undefined) {
    const option = request.options.find(({ id }) => id === option_id);
    if (!option) {
      const offered = request.options.map(({ id }) => id).join(', ') || 'none';
      throw refuse(`This request offers no option "${option_id}"; it offers: ${offered}.`, '/option_id');
    }
    return { answer: { option_id }, rejects: option.kind.startsWith('reject'), always: option.kind === 'allow_always' };
  }
  if (text !== undefined) {
    if (!request.allow_text) throw refuse('This request takes no free text.', '/text');
    return { answer: { text }, rejects: false, always: false };
  }
  if (!request.schema) throw refuse('This request takes no content.', '/content');
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(request.schema);
  if (!validate(content)) {
    const [error] = validate.errors ?? [];
    throw refuse(
      `The content does not fit what is asked for: ${error?.message}.`,
      `/content${error?.instancePath ?? ''}`,
    );
  }
  return { answer: { content: content! }, rejects: false, always: false };
}
