import { Ajv } from 'ajv';
import { type Script, type StepName, steps } from '../../api/script.ts';
import { RpcError } from '../peer.ts';

const names = Object.keys(steps);
const mostSteps = 10_000;
const mostErrors = 5;

/** Why a text is no script; the message names each place. */
const refusal = (errors: string[]): RpcError =>
  new RpcError(-32602, `The script is not valid: ${errors.slice(0, mostErrors).join('; ')}.`);

/** Reads a script, all of it before anything is done. Throws RpcError that says what is wrong, and where. */
export function readScript(text: string): Script {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw refusal([`it is no JSON (${(error as Error).message})`]);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refusal(['it must be an object with "steps"']);
  const ajv = new Ajv({ strict: false, allErrors: true });
  const errors: string[] = [];
  let seen = 0;

  const list = (where: string, given: unknown): void => {
    if (!Array.isArray(given)) return void errors.push(`${where} must be a list`);
    for (const [index, step] of given.entries()) one(`${where}/${index}`, step);
  };
  const one = (where: string, step: unknown): void => {
    seen += 1;
    if (seen > mostSteps || errors.length >= mostErrors) return;
    if (typeof step !== 'object' || step === null || Array.isArray(step))
      return void errors.push(`${where} must be an object`);
    const known = Object.keys(step).filter((name) => names.includes(name));
    const name = known[0] as StepName | undefined;
    const extra = Object.keys(step).filter((key) => {
      if (key === name) return false;
      return !(name === 'ask' && (key === 'allowed' || key === 'rejected'));
    });
    if (name === undefined || extra.length > 0) {
      const which = extra.map((key) => `"${key}"`).join(', ') || 'nothing';
      errors.push(
        name === undefined
          ? `${where} has ${which} where one of ${names.join(', ')} must stand`
          : `${where} has ${which} beside "${name}"`,
      );
      return;
    }
    const fields = step as Record<string, unknown>;
    const validate = ajv.compile(steps[name]);
    if (!validate(fields[name]))
      for (const { instancePath, message = 'is not valid', keyword, params } of validate.errors ?? [])
        errors.push(
          `${where}/${name}${instancePath} ${keyword === 'additionalProperties' ? `has no field "${String(params.additionalProperty)}"` : message}`,
        );
    for (const branch of ['allowed', 'rejected'])
      if (fields[branch] !== undefined) list(`${where}/${branch}`, fields[branch]);
  };

  const fields = value as Record<string, unknown>;
  for (const key of Object.keys(fields))
    if (!['$schema', 'steps', 'repair'].includes(key)) errors.push(`there is no field "${key}"`);
  list('/steps', fields.steps);
  if (fields.repair !== undefined) list('/repair', fields.repair);
  if (seen > mostSteps) errors.push(`it has more than ${mostSteps} steps`);
  if (errors.length > 0) throw refusal(errors);
  return value as Script;
}
