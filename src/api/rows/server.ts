import { Type } from 'typebox';
import { page, paging } from '../common.ts';
import { Operation, OperationGet, OperationList } from '../operations.ts';
import { Harness, Me, Model } from '../server.ts';
import { type Endpoint, row } from '../endpoint.ts';

const Paging = Type.Object(paging);

/** Operations, and what the daemon is. */
export const serverRows = {
  listOperations: row('GET /v1/operations', {
    summary: 'List operations, newest first',
    scope: null,
    query: OperationList,
    status: 200,
    reply: page(Operation),
  }),
  getOperation: row('GET /v1/operations/{operation_id}', {
    summary: 'Get an operation, or wait for its end',
    scope: null,
    query: OperationGet,
    status: 200,
    reply: Operation,
  }),
  getMe: row('GET /v1/me', { summary: 'Who is calling, and with which rights', scope: null, status: 200, reply: Me }),
  listModels: row('GET /v1/models', {
    summary: 'List the models that are known, with their prices',
    scope: null,
    query: Paging,
    status: 200,
    reply: page(Model),
  }),
  listHarnesses: row('GET /v1/harnesses', {
    summary: 'List the harnesses, and which of them are installed',
    scope: null,
    query: Paging,
    status: 200,
    reply: page(Harness),
  }),
} as const satisfies Record<string, Endpoint>;
