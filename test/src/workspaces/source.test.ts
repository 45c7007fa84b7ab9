import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import type { WorkspaceSource } from '../../../src/api/workspaces.ts';
import { Fault } from '../../../src/api/error.ts';
import { createSources } from '../../../src/workspaces/source.ts';

const home = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-sources-'));
for (const name of ['open/inside', 'closed', 'own']) mkdirSync(join(home, name), { recursive: true });
symlinkSync(join(home, 'closed'), join(home, 'open/out'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

const sources = createSources({ forbidden: [join(home, 'own')], roots: [join(home, 'open')] });
const answer = (source: WorkspaceSource, isOwner: boolean): string => {
  try {
    sources.accept(source, isOwner);
    return 'accepted';
  } catch (error) {
    return (error as Fault).code;
  }
};
const directory = (path: string, mode: 'in_place' | 'copy' | 'worktree' = 'in_place'): WorkspaceSource => ({
  type: 'directory',
  path: join(home, path),
  mode,
});
const clone = (url: string): WorkspaceSource => ({ type: 'git', url });
const file = (path: string): WorkspaceSource => clone(pathToFileURL(join(home, path)).href);

test.each<[string, WorkspaceSource, string, string]>([
  ['an empty tree', { type: 'empty' }, 'accepted', 'accepted'],
  ['a directory below a root', directory('open/inside'), 'accepted', 'accepted'],
  ['a root itself, copied', directory('open', 'copy'), 'accepted', 'accepted'],
  ['a directory elsewhere', directory('closed', 'worktree'), 'accepted', 'owner_only'],
  ['a link that leads out of a root', directory('open/out'), 'accepted', 'owner_only'],
  ['a way out of a root', directory('open/../closed'), 'accepted', 'owner_only'],
  [
    'a directory that is not there, which only the owner may know',
    directory('nowhere'),
    'invalid_request',
    'owner_only',
  ],
  ['the daemon’s own folder', directory('own'), 'invalid_request', 'owner_only'],
  ['a repository below a root', file('open/inside'), 'accepted', 'accepted'],
  ['a repository elsewhere', file('closed'), 'accepted', 'owner_only'],
  ['a repository in the daemon’s own folder', file('own'), 'invalid_request', 'owner_only'],
  ['a repository over https', clone('https://example.org/x'), 'accepted', 'accepted'],
  ['a repository over ssh, with the user’s keys', clone('git@example.org:x'), 'accepted', 'owner_only'],
])('%s', (_what, source, owner, others) => {
  expect([answer(source, true), answer(source, false)]).toEqual([owner, others]);
});
