import { Fault } from '../../src/api/error.ts';
import { inputStatuses } from '../../src/api/inputs.ts';
import { runStatuses } from '../../src/api/runs.ts';
import type { App } from '../../src/app.ts';
import type { Context, Handlers } from '../bind.ts';
import { readList, readRange } from '../filters.ts';

type Routes =
  | 'listRuns'
  | 'createRun'
  | 'getRun'
  | 'cancelRun'
  | 'submitRunInput'
  | 'getRunResult'
  | 'getRunDiff'
  | 'listRunEvents'
  | 'listInputRequests';

/** Throws `unavailable` when no run is taken any more. */
export function assertTaking(supervisor: App['supervisor']): void {
  if (supervisor.draining())
    throw new Fault('unavailable', 'The daemon is shutting down and takes no new runs.', {
      headers: { 'retry-after': '10' },
    });
}

/** The ids as they are stored, of endpoints that there are. Throws `not_found`. */
export function toldOf<Body extends { webhook_endpoint_ids?: string[] }>(
  app: App,
  organization: string,
  body: Body,
): Body {
  const told = body.webhook_endpoint_ids?.map((id) => id.toLowerCase());
  if (told) app.webhooks.endpoints.assertKnown(organization, told);
  return told ? { ...body, webhook_endpoint_ids: told } : body;
}

/** Who asks for a run. */
export const callerOf = ({ type, id, credential }: Context['principal']) => ({
  api_key_id: type === 'api_key' ? id : null,
  is_local: credential === 'session',
});

export const runRoutes = (app: App): Pick<Handlers, Routes> => {
  const { runs, events, inputs, idempotency, supervisor } = app;
  return {
    listRuns({ query }, { principal, paging }) {
      const { limit: _l, cursor: _c, status, idempotency_key, from, to, ...ids } = query;
      const organization = principal.organization_id;
      const made = idempotency_key === undefined ? undefined : idempotency.resourceOf(organization, idempotency_key);
      return runs.list(
        organization,
        {
          ...ids,
          ...readRange({ ...(from ? { from } : {}), ...(to ? { to } : {}) }),
          ...(status === undefined ? {} : { status: readList('status', status, runStatuses)! }),
          ...(made === undefined ? {} : { id: made ?? '' }),
        },
        paging(),
      );
    },

    createRun({ body }, { principal, tx }) {
      assertTaking(supervisor);
      return runs.create(
        tx,
        principal.organization_id,
        toldOf(app, principal.organization_id, body),
        callerOf(principal),
      );
    },
    getRun: ({ path }, { principal }) => runs.get(principal.organization_id, path.run_id),
    cancelRun: ({ path }, { principal, tx }) => runs.cancel(tx, principal.organization_id, path.run_id),
    submitRunInput: ({ path, body }, { principal, tx }) =>
      runs.answer(tx, principal.organization_id, path.run_id, body, principal.id),
    getRunResult: ({ path }, { principal }) => runs.result(principal.organization_id, path.run_id),

    async getRunDiff({ path }, { principal }) {
      const body = Buffer.from(await runs.diff(principal.organization_id, path.run_id));
      const headers = { 'content-type': 'text/x-diff; charset=utf-8', 'content-length': String(body.length) };
      return { status: 200, headers, body };
    },

    listRunEvents({ path, query }, { principal, paging }) {
      const run = runs.find(principal.organization_id, path.run_id);
      const page = paging();
      const after =
        page.after ?? (query.after === undefined ? null : Math.min(Number(query.after), Number.MAX_SAFE_INTEGER));
      return events.page(run, after, page);
    },

    listInputRequests({ query }, { principal, paging }) {
      const status = readList('status', query.status, inputStatuses);
      const { run_id } = query;
      return inputs.list(
        principal.organization_id,
        { ...(status ? { status } : {}), ...(run_id ? { run_id } : {}) },
        paging(),
      );
    },
  };
};
