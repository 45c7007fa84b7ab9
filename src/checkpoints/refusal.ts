import { Fault } from '../api/error.ts';
import { TreeError } from '../trees/failure.ts';

const settings = { max_files: 'checkpoints.max_files', max_bytes: 'checkpoints.max_megabytes' };

/** What went wrong with a tree, as the API says it. What is no failure of trees or of the disk stays as it is. */
export function faultOf(error: unknown): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new Fault('insufficient_storage', 'The disk is full. Free some space and try again.', { cause: error });
  if (!(error instanceof TreeError)) return error;
  const { reason, message, path, limit } = error;
  const details = { ...(path === null ? {} : { path }), state: reason };
  switch (reason) {
    case 'too_large': {
      const setting = limit ? settings[limit.name] : settings.max_bytes;
      return new Fault(
        'payload_too_large',
        `${message} Nothing was stored. Raise ${setting}, or name folders that can be built again in checkpoints.exclude.`,
        { details: { ...details, setting, limit: limit?.value ?? null }, cause: error },
      );
    }
    case 'changed':
    case 'stopped':
      return new Fault('unavailable', `The files changed while they were read. ${message} Try again.`, {
        details,
        cause: error,
      });
    case 'unreadable':
    case 'unusable':
      return new Fault('invalid_state', message, { details, cause: error });
    case 'damaged':
    case 'unknown_tree':
      return new Fault('invalid_state', `The checkpoint is damaged and cannot be used. ${message}`, {
        details: { ...details, state: 'corrupt' },
        cause: error,
      });
  }
}

/** Whether the store does not hold what it should. */
export const isDamage = (error: unknown): boolean =>
  error instanceof TreeError && (error.reason === 'damaged' || error.reason === 'unknown_tree');

/** Throws `invalid_path` unless these are paths of files as the contract has them (section 4). */
export function assertPaths(paths: readonly string[] | null): void {
  for (const path of paths ?? []) {
    const segments = path.split('/');
    const isWrong = segments.some((one) => one === '' || one === '.' || one === '..' || one.toLowerCase() === '.git');
    if (isWrong || path.includes('\0') || Buffer.byteLength(path) > 4096)
      throw new Fault('invalid_path', `The path ${JSON.stringify(path.slice(0, 200))} is none of this workspace.`, {
        param: 'paths',
      });
  }
}
