import { lstatSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Mount } from './argv.ts';

/**
 * What an agent must not write in its workspace: files that programs of the user read and run commands from, without being
 * asked, when the user next works there.
 */
export const guardedPaths = [
  '.git/hooks',
  '.git/config',
  '.git/info/attributes',
  '.git/commondir',
  '.git/config.worktree',
  '.gitmodules',
  '.claude/settings.json',
  '.claude/settings.local.json',
  '.mcp.json',
  '.codex',
  '.vscode',
  '.idea',
] as const;

/** Nothing may stand at these in place of what is not there: git would take it for a file of its own, and fail or complain. */
const unplaceable: readonly string[] = ['.git/commondir', '.git/config.worktree'];

/** What of a workspace is to be guarded. */
export interface Guard {
  /** Mounts over the workspace: what is guarded read-only, and the folders above it in place, so that none is renamed away. */
  mounts: Mount[];
  /** Empty folders to stand where nothing is, so that nothing can be made there; git does not see empty folders. Outer ones first. */
  placeholders: string[];
  /** Guarded paths that stay open, and what is there now: what comes of them is to be looked at in the end. */
  open: { path: string; before: string | null }[];
}

type Kind = 'folder' | 'file' | 'link' | 'absent';

const kindOf = (path: string): Kind => {
  try {
    const found = lstatSync(path);
    return found.isDirectory() ? 'folder' : found.isSymbolicLink() ? 'link' : 'file';
  } catch {
    return 'absent';
  }
};

const identityOf = (path: string): string | null => {
  try {
    const { dev, ino } = lstatSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
};

const isEmpty = (folder: string): boolean => {
  try {
    return readdirSync(folder).length === 0;
  } catch {
    return false;
  }
};

/**
 * Looks at a workspace (absolute path) and says what closes the guarded paths in it. Four things stay open: what is below a
 * `.git` that is not there, for an agent may make a repository; a workspace in which there is nothing, for many tools begin
 * only in an empty folder; what leads through a link; and where git bears no placeholder. Where `.git` is a file, that file is closed.
 */
export function guardOf(workspace: string, paths: readonly string[] = guardedPaths): Guard {
  const guard: Guard = { mounts: [], placeholders: [], open: [] };
  const leave = (path: string) => guard.open.push({ path, before: identityOf(join(workspace, path)) });
  if (isEmpty(workspace)) {
    for (const path of paths) leave(path);
    return guard;
  }
  const seen = new Set<string>();
  for (const guarded of paths) {
    const parts = guarded.split('/');
    for (const [index] of parts.entries()) {
      const relative = parts.slice(0, index + 1).join('/');
      const path = join(workspace, relative);
      const isLast = index === parts.length - 1;
      const kind = kindOf(path);
      const isUnplaceable = relative === '.git' || unplaceable.includes(relative);
      if (kind === 'link' || (kind === 'absent' && isUnplaceable)) {
        leave(guarded);
        break;
      }
      if (kind === 'absent' && !seen.has(path)) guard.placeholders.push(path);
      if (isLast || kind === 'file') {
        guard.mounts.push({ kind: 'read', path });
        break;
      }
      if (!seen.has(path)) guard.mounts.push({ kind: 'write', path });
      seen.add(path);
    }
  }
  return guard;
}

/** A placeholder that was made, and which one it is. */
export interface Placed {
  path: string;
  /** Device and inode: what is there under another number is not ours. */
  identity: string;
}

/**
 * Makes the placeholders and writes down in `record` which ones they are, so that whoever comes later can take them away. The
 * names are written before the folders are made: none is ever without a record.
 */
export function place(placeholders: readonly string[], record: string): Placed[] {
  if (placeholders.length === 0) return [];
  writeFileSync(record, JSON.stringify(placeholders.map((path) => ({ path, identity: '' }))), { mode: 0o600 });
  const placed = placeholders.flatMap((path) => {
    try {
      mkdirSync(path, { mode: 0o755 });
      return { path, identity: identityOf(path) ?? '' };
    } catch {
      // Where nothing can be made by us, the agent cannot make anything either; or somebody was faster.
      return [];
    }
  });
  writeFileSync(record, JSON.stringify(placed), { mode: 0o600 });
  return placed;
}

/** Takes placeholders away again: only those that are still the same folder, and still empty. */
export function unplace(placed: readonly Placed[]): void {
  for (const { path, identity } of placed.toReversed()) {
    if (identity !== '' && identityOf(path) !== identity) continue;
    try {
      rmdirSync(path);
    } catch {
      // Somebody has put something into it: then it is theirs.
    }
  }
}

/** The placeholders of a record that a runner left; none when there is no record. */
export function placedIn(record: string): Placed[] {
  try {
    return JSON.parse(readFileSync(record, 'utf8')) as Placed[];
  } catch {
    return [];
  }
}

/** Settings of git that name a program. */
const commands =
  /^\s*(\[(alias|include|includeif)\b|(fsmonitor|hookspath|sshcommand|gitproxy|pager|editor|askpass|command|textconv|external|clean|smudge|process|driver|program|helper|uploadpack|receivepack|cmd|path)\s*=)/im;

/** Whether what an agent put at a guarded path can make something run: git's own samples and plain settings cannot. */
function canRun(workspace: string, guarded: string): boolean {
  const path = join(workspace, guarded);
  try {
    if (guarded === '.git/hooks') return readdirSync(path).some((name) => !name.endsWith('.sample'));
    if (guarded === '.git/config' || guarded === '.git/config.worktree')
      return commands.test(readFileSync(path, 'utf8'));
  } catch {
    return false;
  }
  return true;
}

/** Those of the paths that were left open at which a run has made or replaced something that programs may run commands from. */
export function madeAt(workspace: string, open: Guard['open']): string[] {
  return open
    .filter(({ path, before }) => {
      const now = identityOf(join(workspace, path));
      return now !== null && now !== before && canRun(workspace, path);
    })
    .map(({ path }) => path);
}
