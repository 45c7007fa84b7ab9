import { Type, type Static } from 'typebox';
import { named, paging, resource, Uuid } from './common.ts';

const what = {
  kind: Type.Enum(['command', 'path', 'call'], {
    description: 'What `pattern` is: a command, a file, or all that the tool is given, as JSON with sorted names.',
  }),
  tool: Type.String({ description: 'The tool as the harness calls it; for a path what is done to it.' }),
  pattern: Type.String({ description: 'Matches itself, letter for letter, and nothing else.' }),
};

export const GrantPattern = named('GrantPattern', what, 'What is allowed: just this.');
export type GrantPattern = Static<typeof GrantPattern>;

export const Grant = named(
  'Grant',
  {
    ...resource,
    project_id: Uuid,
    harness: Type.String(),
    ...what,
    run_id: Uuid,
    request_id: Uuid,
    created_by: Type.String(),
  },
  'What a person has allowed for good: a later call in the project that is just this one is not asked about.',
);
export type Grant = Static<typeof Grant>;

export const GrantList = Type.Object({ ...paging, project_id: Type.Optional(Uuid) });
