import { Type, type Static } from 'typebox';
import { input, named, nullable, paging, resource, Time, Uuid } from './common.ts';

import { GrantPattern } from './grants.ts';

export const InputOption = named('InputOption', {
  id: Type.String(),
  label: Type.String(),
  kind: Type.Enum(['allow_once', 'allow_always', 'reject_once', 'reject_always', 'choice']),
});
export type InputOption = Static<typeof InputOption>;

export const inputStatuses = ['pending', 'answered', 'rejected', 'expired', 'cancelled'] as const;

export const InputRequest = named(
  'InputRequest',
  {
    ...resource,
    run_id: Uuid,
    kind: Type.Enum(['permission', 'question', 'credential']),
    title: Type.String(),
    message: nullable(Type.String()),
    tool_call_id: nullable(Type.String()),
    options: Type.Array(InputOption),
    allow_text: Type.Boolean(),
    schema: nullable(Type.Record(Type.String(), Type.Unknown())),
    grant: nullable(GrantPattern),
    status: Type.Enum([...inputStatuses]),
    answer: nullable(Type.Record(Type.String(), Type.Unknown())),
    answered_by: nullable(Type.String()),
    expires_at: Time,
  },
  'A question of an agent to a person. The first answer counts.',
);
export type InputRequest = Static<typeof InputRequest>;

/** An input request as the runner knows it; the daemon adds what makes it a resource. */
export type InputDraft = Pick<
  InputRequest,
  'id' | 'kind' | 'title' | 'message' | 'tool_call_id' | 'options' | 'allow_text' | 'schema' | 'grant' | 'expires_at'
>;

/** How a person answered. */
export type InputAnswer =
  | { option_id: string }
  | { text: string }
  | { content: Record<string, unknown> }
  | { cancel: true };

export const RunInput = input('RunInput', {
  request_id: Type.Optional(Uuid),
  option_id: Type.Optional(Type.String({ maxLength: 1024 })),
  text: Type.Optional(Type.String({ maxLength: 1_048_576 })),
  content: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  cancel: Type.Optional(Type.Literal(true)),
});
export type RunInput = Static<typeof RunInput>;

export const InputRequestList = Type.Object({
  ...paging,
  status: Type.Optional(Type.String({ description: `A comma list of ${inputStatuses.join(', ')}.` })),
  run_id: Type.Optional(Uuid),
});
