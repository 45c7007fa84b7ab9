import { realpathSync, statSync } from 'node:fs';
import { basename, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Fault } from '../api/error.ts';
import type { WorkspaceSource } from '../api/workspaces.ts';
import { isRef, readRemote, RemoteRefused } from './remote.ts';

interface Needs {
  /** Folders of the daemon that no run may work in. */
  forbidden: string[];
  /** Folders below which not only the local session may use directories. */
  roots: string[];
}

/** A source as it is stored, and the name of a workspace that is given none. */
interface Accepted {
  source: WorkspaceSource;
  name: string;
}

/** Whether a path is a folder or lies in it. Both are canonical. */
export const within = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

const refuse = (field: string, message: string) =>
  new Fault('invalid_request', message, {
    param: `source.${field}`,
    details: { errors: [{ path: `/source/${field}`, message }] },
  });

const canonical = (path: string): string | undefined => {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
};

/** Says which sources are accepted from whom. */
export function createSources({ forbidden, roots }: Needs) {
  /** The canonical path of a directory that may be used. */
  const resolve = (path: string, field: string, isOwner: boolean): string => {
    const real = canonical(path);
    // Whether it exists is nothing to tell to those who may not use it.
    if (!isOwner && !(real !== undefined && roots.some((root) => within(real, canonical(root) ?? root))))
      throw new Fault(
        'owner_only',
        'Directories of this machine are used with the local session alone, but for those below workspace_roots of the configuration.',
      );
    if (real === undefined) throw refuse(field, `There is no directory ${path}.`);
    if (!statSync(real).isDirectory()) throw refuse(field, `${path} is not a directory.`);
    for (const own of forbidden)
      if (within(real, own) || within(own, real))
        throw refuse(field, `${path} holds agentctl's own data, which no run may touch. Choose a folder beside it.`);
    return real;
  };

  const acceptGit = (source: Extract<WorkspaceSource, { type: 'git' }>, isOwner: boolean): Accepted => {
    const { url, ref = null, depth = null } = source;
    if (ref !== null && !isRef(ref)) throw refuse('ref', 'This is no name of a branch or tag, and no commit hash.');
    let remote: ReturnType<typeof readRemote>;
    try {
      remote = readRemote(url);
    } catch (error) {
      if (error instanceof RemoteRefused) throw refuse('url', error.message);
      throw error;
    }
    if (remote.scheme === 'ssh' && !isOwner)
      throw new Fault(
        'owner_only',
        'Cloning over ssh uses the keys of this machine’s user; only the local session may.',
      );
    const clean = remote.scheme === 'file' ? pathToFileURL(resolve(remote.path, 'url', isOwner)).href : remote.url;
    return { source: { type: 'git', url: clean, ref, depth }, name: remote.name };
  };

  return {
    /** Throws `invalid_request` with `param`, or `owner_only` unless the caller is the local session. */
    accept(source: WorkspaceSource, isOwner: boolean): Accepted {
      if (source.type === 'git') return acceptGit(source, isOwner);
      if (source.type !== 'directory') return { source, name: 'workspace' };
      const path = resolve(source.path, 'path', isOwner);
      return { source: { ...source, path }, name: basename(path) || 'root' };
    },
  };
}
