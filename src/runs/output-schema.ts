import { Fault } from '../api/error.ts';
import { schemaFaults } from '../runner/answer-form.ts';

/** Throws `invalid_request`, naming where, for a schema that no answer could be checked against. */
export function assertSchema(schema: object | undefined): void {
  if (schema === undefined) return;
  const errors = schemaFaults(schema).map(({ path, message }) => ({ path: `/output_schema${path}`, message }));
  const [first] = errors;
  if (!first) return;
  throw new Fault('invalid_request', `This is no JSON Schema to answer in: ${first.path} ${first.message}.`, {
    param: 'output_schema',
    details: { errors },
  });
}
