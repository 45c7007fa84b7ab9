import { expect, test } from 'vitest';
import { AnswerForm, longestSchema, schemaFaults } from '../../../src/runner/answer-form.ts';
import { Place } from '../../kit/runner.ts';

const schema = {
  type: 'object',
  properties: { title: { type: 'string' }, count: { type: 'integer', minimum: 1 } },
  required: ['title', 'count'],
  additionalProperties: false,
};
const good = { title: 'x', count: 2 };

test('a schema that is none is named, with the place', () => {
  expect(schemaFaults(schema)).toEqual([]);
  expect(schemaFaults({ $schema: 'http://json-schema.org/draft-07/schema#', ...schema })).toEqual([]);
  expect(schemaFaults({ properties: { a: { type: 'strong' } } })[0]?.path).toBe('/properties/a/type');
  expect(schemaFaults({ $ref: 'https://example.com/other.json' })).toHaveLength(1);
  expect(schemaFaults({ pattern: '(' })).toHaveLength(1);
  expect(schemaFaults({ description: 'x'.repeat(longestSchema) })[0]?.message).toContain('longer');
  let deep: object = {};
  for (let n = 0; n < 40; n++) deep = { not: deep };
  expect(schemaFaults(deep)[0]?.message).toContain('deeper');
  // Only its own depth counts, not the depth of what fits.
  expect(schemaFaults({ $defs: { a: { items: { $ref: '#/$defs/a' } } }, $ref: '#/$defs/a' })).toEqual([]);
});

test('an answer is read as it is, or out of its last fence; what does not fit is named', () => {
  const form = new AnswerForm(schema);
  const text = JSON.stringify(good);
  expect(form.read(text)).toEqual({ value: good });
  expect(form.read(`Here it is:\n\`\`\`json\n{}\n\`\`\`\nor rather\n\`\`\`json\n${text}\n\`\`\`\n`)).toEqual({
    value: good,
  });
  expect(form.read('It is 2.')).toEqual({ misfits: [{ path: '', message: 'is no JSON' }] });
  expect(form.read(null)).toEqual({ misfits: [{ path: '', message: 'is no JSON' }] });
  expect(form.read('{"title":"x","count":0,"more":1}')).toEqual({
    misfits: expect.arrayContaining([
      { path: '', message: 'has no place for "more"' },
      { path: '/count', message: 'must be >= 1' },
    ]),
  });
  expect(new AnswerForm({ type: ['null', 'string'] }).read('null')).toEqual({ value: null });
  expect(new AnswerForm({ $ref: '#' }).read('1')).toMatchObject({ misfits: [{ path: '' }] });
});

const usage = { inputTokens: 10, outputTokens: 5, totalTokens: 15 };

test('an agent is told the form, and asked once more when its answer does not fit', async () => {
  await using place = new Place();
  const runner = place.start(
    place.agent(
      {
        prompts: [
          [{ say: 'It is 2.' }, { cost: 0.1 }, { end: 'end_turn', usage }],
          [
            { recall: true },
            { tool: { id: 't', status: 'completed' } },
            { say: JSON.stringify(good) },
            { cost: 0.3 },
            { end: 'end_turn', usage },
          ],
        ],
      },
      { output_schema: schema },
    ),
  );
  expect(await runner.final()).toMatchObject({
    status: 'completed',
    stop_reason: 'end_turn',
    text: JSON.stringify(good),
    structured_output: { value: good },
    usage: { input_tokens: 20, output_tokens: 10, turns: 3, cost_micro_usd: '300000' },
  });
  const [, recalled] = runner.events('message.completed');
  expect(recalled?.text).toContain('do it');
  expect(recalled?.text).toContain('JSON Schema');
  expect(recalled?.text).toContain('is no JSON');
});

test('an answer that does not fit twice fails the run and says what is wrong', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[{ say: '{"title":"x"}' }]] }, { output_schema: schema }));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'harness_failed',
    structured_output: null,
    error: {
      code: 'harness_failed',
      details: { reason: 'output_schema', errors: [{ path: '', message: "must have required property 'count'" }] },
    },
  });
  expect(runner.events('message.completed')).toHaveLength(2);
});

test('a script’s output is its answer', async () => {
  await using place = new Place();
  const run = place.spec(`echo '${JSON.stringify(good)}'`, { output_schema: schema });
  expect(await place.start(run).final()).toMatchObject({ status: 'completed', structured_output: { value: good } });
  await using other = new Place();
  const wrong = other.spec('echo nothing', { output_schema: schema });
  expect(await other.start(wrong).final()).toMatchObject({
    status: 'failed',
    text: 'nothing\n',
    error: { details: { reason: 'output_schema' } },
  });
});
