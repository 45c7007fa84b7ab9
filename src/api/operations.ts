import { Type, type Static } from 'typebox';
import { named, nullable, paging, resource, ResourceError, Time, Uuid } from './common.ts';

export const operationTypes = [
  'project.archive',
  'project.delete',
  'workspace.create',
  'workspace.delete',
  'file.write',
  'file.delete',
  'checkpoint.create',
  'checkpoint.delete',
  'workspace.restore',
  'webhook.replay',
  'store.collect',
] as const;
export type OperationType = (typeof operationTypes)[number];

export const operationStatuses = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const;

export const Operation = named(
  'Operation',
  {
    ...resource,
    type: Type.Enum([...operationTypes]),
    status: Type.Enum([...operationStatuses]),
    resource: nullable(Type.Object({ type: Type.String(), id: Uuid }, { additionalProperties: false })),
    progress: nullable(
      Type.Object(
        { done: Type.Integer(), total: nullable(Type.Integer()), unit: Type.String() },
        { additionalProperties: false },
      ),
    ),
    result: nullable(Type.Record(Type.String(), Type.Unknown())),
    error: nullable(ResourceError),
    started_at: nullable(Time),
    finished_at: nullable(Time),
  },
  'Work that was accepted with 202 and goes on by itself.',
);
export type Operation = Static<typeof Operation>;

export const OperationList = Type.Object({
  ...paging,
  status: Type.Optional(Type.String({ description: `A comma list of ${operationStatuses.join(', ')}.` })),
  type: Type.Optional(Type.String({ description: `A comma list of ${operationTypes.join(', ')}.` })),
  resource_id: Type.Optional(Uuid),
});

export const OperationGet = Type.Object({
  wait: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 50, description: 'Answer when it has ended, or after this many seconds.' }),
  ),
});
