import { Type, type Static, type TSchema } from 'typebox';

/** What the harness `scripted` plays. The published JSON Schema, docs/scripted.schema.json, is made of this. */

const words = (description: string) => Type.String({ maxLength: 262_144, description });
const ms = (description: string) => Type.Integer({ minimum: 0, maximum: 3_600_000, description });
const path = Type.String({ minLength: 1, maxLength: 4096, description: 'Relative to the workspace.' });
const category = Type.Enum(['execute', 'read', 'edit', 'search', 'fetch', 'other'], { default: 'other' });
const object = <P extends Record<string, TSchema>>(properties: P, description: string) =>
  Type.Object(properties, { additionalProperties: false, description });
const count = Type.Integer({ minimum: 0, maximum: 1_000_000_000 });

/** The steps by their names: a step is an object with one of these. */
export const steps = {
  message: words('The assistant says this.'),
  reasoning: words('It thinks this.'),
  plan: Type.Array(
    Type.Object(
      { text: Type.String(), status: Type.Enum(['pending', 'in_progress', 'completed']) },
      { additionalProperties: false },
    ),
    { maxItems: 100, description: 'A plan, shown whole.' },
  ),
  tool: object(
    {
      name: Type.String({ minLength: 1, maxLength: 64 }),
      title: Type.Optional(Type.String({ maxLength: 1000 })),
      category: Type.Optional(category),
      input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      output: Type.Optional(words('What it answers.')),
      status: Type.Optional(Type.Enum(['completed', 'failed'], { default: 'completed' })),
      exit_code: Type.Optional(Type.Integer()),
      duration_ms: Type.Optional(ms('How long it takes.')),
    },
    'A tool call is shown; nothing is done.',
  ),
  write: object({ path, content: words('All of the file.') }, 'A file is written; its folders are made.'),
  delete: object({ path }, 'A file is removed.'),
  ask: object(
    {
      title: Type.String({ minLength: 1, maxLength: 500 }),
      category: Type.Optional(category),
      input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    },
    'Permission is asked for, by the run’s mode; `allowed` or `rejected` is done then.',
  ),
  question: object(
    {
      message: Type.String({ minLength: 1, maxLength: 8192 }),
      options: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1, maxItems: 100 })),
    },
    'The person is asked; the answer is said as a message.',
  ),
  usage: object(
    {
      input_tokens: Type.Optional(count),
      cached_input_tokens: Type.Optional(count),
      cache_write_tokens: Type.Optional(count),
      output_tokens: Type.Optional(count),
      reasoning_tokens: Type.Optional(count),
    },
    'So many tokens more are reported at the end.',
  ),
  cost_micro_usd: Type.String({ pattern: '^[0-9]{1,15}$', description: 'So much more is reported as spent, at once.' }),
  log: words('A line on standard error.'),
  wait_ms: ms('Nothing happens for so long.'),
  hang: Type.Literal(true, { description: 'Nothing happens any more, until the run is cancelled or its time is up.' }),
  crash: object(
    { exit_code: Type.Integer({ minimum: 0, maximum: 255 }) },
    'The process ends, in the middle of everything.',
  ),
  error: object(
    {
      status: Type.Optional(Type.Integer({ minimum: 400, maximum: 599 })),
      message: Type.String({ minLength: 1, maxLength: 2000 }),
    },
    'The run fails: with a `status` as if a model provider had answered it, otherwise as a failure of the harness.',
  ),
  end: Type.Enum(['end_turn', 'turn_limit'], { description: 'The end, before the last step.' }),
} as const;

export type StepName = keyof typeof steps;
/** One step, and for `ask` what comes then. */
export type Step = { [N in StepName]: { [K in N]: Static<(typeof steps)[N]> } }[StepName] & {
  allowed?: Step[];
  rejected?: Step[];
};

/** A script. */
export interface Script {
  $schema?: string;
  steps: Step[];
  /** What is done when an `output_schema` is not met and the answer is asked for once more. */
  repair?: Step[];
}

/** The published JSON Schema (2020-12) of a script. */
export const scriptSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'A script for the harness "scripted"',
  type: 'object',
  required: ['steps'],
  additionalProperties: false,
  properties: {
    $schema: { type: 'string' },
    steps: { $ref: '#/$defs/steps' },
    repair: {
      $ref: '#/$defs/steps',
      description: 'What is done when an `output_schema` is not met and the answer is asked for once more.',
    },
  },
  $defs: {
    steps: { type: 'array', maxItems: 10_000, items: { $ref: '#/$defs/step' } },
    step: {
      oneOf: Object.entries(steps).map(([name, schema]) => ({
        type: 'object',
        required: [name],
        additionalProperties: false,
        properties: {
          [name]: schema,
          ...(name === 'ask' ? { allowed: { $ref: '#/$defs/steps' }, rejected: { $ref: '#/$defs/steps' } } : {}),
        },
      })),
    },
  },
};
