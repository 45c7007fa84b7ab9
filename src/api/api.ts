import type { Endpoint, Input, Reply } from './endpoint.ts';
import { projectRows } from './rows/projects.ts';
import { usageRows } from './rows/usage.ts';
import { workspaceRows } from './rows/workspaces.ts';
import { fileRows } from './rows/files.ts';
import { accessRows } from './rows/access.ts';
import { checkpointRows } from './rows/checkpoints.ts';
import { agentRows } from './rows/agents.ts';
import { sessionRows } from './rows/sessions.ts';
import { runRows } from './rows/runs.ts';
import { artifactRows } from './rows/artifacts.ts';
import { webhookRows } from './rows/webhooks.ts';
import { grantRows } from './rows/grants.ts';
import { serverRows } from './rows/server.ts';
import { storageRows } from './rows/storage.ts';

/** Every operation of /v1 that exists, in the order of the specification, section 4. */
export const api = {
  ...projectRows,
  ...workspaceRows,
  ...fileRows,
  ...checkpointRows,
  ...agentRows,
  ...sessionRows,
  ...runRows,
  ...grantRows,
  ...accessRows,
  ...artifactRows,
  ...usageRows,
  ...webhookRows,
  ...serverRows,
  ...storageRows,
} as const satisfies Record<string, Endpoint>;

export type Api = typeof api;
export type OperationId = keyof Api;
export type InputOf<Id extends OperationId> = Input<Api[Id]>;
export type ReplyOf<Id extends OperationId> = Reply<Api[Id]>;

/** Path, query and body of an operation, as its row has them; a query may always be left out. */
export type CallInput<Id extends OperationId> = Inputs[Id];
type EachInput = {
  [Id in OperationId]: Omit<InputOf<Id>, 'query'> &
    (InputOf<Id> extends { query: infer Query } ? { query?: Query } : object);
};
// An interface has each operation's input worked out; left open over all of them, the parts would be multiplied out.
interface Inputs extends EachInput {}
