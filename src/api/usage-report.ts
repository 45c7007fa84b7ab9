import { Type, type Static } from 'typebox';
import { named, nullable, paging, Time } from './common.ts';
import { Usage } from './usage.ts';

/** What usage can be told apart by. */
export const usageGroups = [
  'project',
  'workspace',
  'session',
  'agent',
  'harness',
  'model',
  'api_key',
  'billing_mode',
] as const;
export type UsageGroup = (typeof usageGroups)[number];

const UsageBucket = Type.Enum(['total', 'hour', 'day', 'month']);
export type UsageBucket = Static<typeof UsageBucket>;

export const UsageQuery = Type.Object({
  ...paging,
  from: Type.Optional(
    Type.String({
      format: 'date-time',
      description: 'At this time or later; the begin of the month of `to` when left out.',
    }),
  ),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Before this time; now when left out.' })),
  bucket: Type.Optional(UsageBucket),
  group_by: Type.Optional(Type.String({ description: `A comma list of ${usageGroups.join(', ')}.` })),
  time_zone: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'Whose hours, days and months are meant, such as Europe/Berlin; UTC when left out.',
    }),
  ),
});
export type UsageQuery = Static<typeof UsageQuery>;

const figures = {
  runs: Type.Integer({ description: 'Begun in this time.' }),
  calls: Type.Integer({ description: 'Calls of models in this time.' }),
  unpriced_calls: Type.Integer({ description: 'Of these, the ones whose cost nobody knows: it is not in the sum.' }),
  ...Usage.properties,
};
export const UsageFigures = named(
  'UsageFigures',
  figures,
  'Sums. Turns, tool calls and time are those of the runs begun.',
);
export type UsageFigures = Static<typeof UsageFigures>;

export const UsageRow = named(
  'UsageRow',
  {
    start: Time,
    end: Time,
    group: Type.Record(Type.String(), nullable(Type.String()), {
      description: 'The value of each word of `group_by`.',
    }),
    ...figures,
  },
  'What was used in one stretch of time by one group.',
);
export type UsageRow = Static<typeof UsageRow>;

export const UsageReport = named(
  'UsageReport',
  {
    from: Time,
    to: Time,
    bucket: UsageBucket,
    group_by: Type.Array(Type.Enum([...usageGroups])),
    data: Type.Array(UsageRow),
    totals: UsageFigures,
    next_cursor: nullable(Type.String()),
  },
  'What was used: oldest first; stretches in which nothing was used are left out.',
);
export type UsageReport = Static<typeof UsageReport>;
