import { expect, test } from 'vitest';
import { openApp } from '../kit/app.ts';
import { counts, createProject, createRun, ended, untilRun } from './scene.ts';

test('a run with an output_schema answers in its form, or fails and says where it does not', async () => {
  const scene = await openApp();
  const { id } = await createProject(scene);
  const output_schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  const run = async (prompt: string) => {
    const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt, output_schema });
    const { status, output_schema: kept } = await untilRun(scene, run_id, ended);
    expect(kept).toEqual(output_schema);
    const { body } = await scene.call('GET', `/v1/runs/${run_id}/result`);
    return { status, ...body };
  };
  expect(await run(`echo '{"n": 3}'`)).toMatchObject({ status: 'completed', structured_output: { n: 3 }, error: null });
  expect(await run(`echo '{"n": "3"}'`)).toMatchObject({
    status: 'failed',
    structured_output: null,
    text: '{"n": "3"}\n',
    error: {
      code: 'harness_failed',
      details: { reason: 'output_schema', errors: [{ path: '/n', message: 'must be integer' }] },
    },
  });

  const before = counts(scene.app);
  const wrong = { ...output_schema, properties: { n: { type: 'strong' } } };
  const refused = await scene.call('POST', '/v1/runs', {
    project_id: id,
    harness: 'shell',
    prompt: 'true',
    output_schema: wrong,
  });
  expect(refused).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_request', param: 'output_schema' } },
  });
  expect(refused.body.error.details.errors[0].path).toBe('/output_schema/properties/n/type');
  expect(counts(scene.app)).toEqual(before);
  await scene.close();
});
