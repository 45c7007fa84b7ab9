/** What can be the matter with a tree or with the store of trees. */
export type TreeReason = 'changed' | 'too_large' | 'unreadable' | 'damaged' | 'unknown_tree' | 'unusable' | 'stopped';

/**
 * A failure of the trees. `changed`: something was written while it was read, also after three more tries; `too_large`: over a
 * limit, nothing was stored; `unreadable`: no permission; `damaged`: the store does not hold what it should; `unknown_tree`:
 * the store has no such tree or object; `unusable`: the folder given cannot be used; `stopped`: another
 * part of the work has failed. `path` is below the root, where one is known.
 */
export class TreeError extends Error {
  readonly reason: TreeReason;
  readonly path: string | null;
  /** For `too_large`: which limit, its value, and how far it was seen to be passed. */
  readonly limit: { name: 'max_files' | 'max_bytes'; value: number; seen: number } | null;

  constructor(
    reason: TreeReason,
    message: string,
    more: { path?: string | null; limit?: TreeError['limit']; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'TreeError';
    this.reason = reason;
    this.path = more.path ?? null;
    this.limit = more.limit ?? null;
  }
}

/** The error code of the operating system, or undefined. */
export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | null)?.code;
