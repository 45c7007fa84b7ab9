import { readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Storage, StorageKind } from '../api/storage.ts';
import { type Clock, iso } from '../base/clock.ts';
import { weigh, type Weight } from '../trees/trees.ts';

interface Needs {
  clock: Clock;
  data: string;
  state: string;
  /** Whose a project is and what it is called; undefined when there is none. */
  project(id: string): { organization_id: string; name: string } | undefined;
  workspace(id: string): { organization_id: string; project_id: string; name: string } | undefined;
}

/** Names in the data folder; what is not here is `other`. */
const kinds: Record<string, StorageKind> = {
  trees: 'checkpoints',
  'tree-caches': 'caches',
  workspaces: 'workspaces',
  trash: 'workspaces',
  runs: 'runs',
  sessions: 'runs',
  artifacts: 'artifacts',
};
const order: StorageKind[] = ['database', 'checkpoints', 'caches', 'workspaces', 'runs', 'artifacts', 'logs', 'other'];
const kindOf = (name: string): StorageKind =>
  /\.(db|lock)(-\w+)?$/.test(name) ? 'database' : (kinds[name] ?? 'other');

/** A figure is good for so many milliseconds. */
const fresh = 10_000;
const most = 100;

/** One thing on the disk. */
interface Item {
  path: string;
  kind: StorageKind;
  /** The project or workspace that it belongs to. */
  id: string | null;
}

/** Where the room on the disk goes. A thread adds it up; the database's files are only looked at. */
export function createStorage({ clock, data, state, project, workspace }: Needs) {
  let known: { at: number; items: Promise<(Item & Weight)[]> } | undefined;

  const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

  const measure = async (): Promise<(Item & Weight)[]> => {
    const items: Item[] = [];
    for (const name of await namesIn(data)) {
      const path = join(data, name);
      if (name !== 'trees' && name !== 'workspaces') items.push({ path, kind: kindOf(name), id: null });
      else for (const id of await namesIn(path)) items.push({ path: join(path, id), kind: kindOf(name), id });
    }
    if (state !== data) items.push({ path: state, kind: 'logs', id: null });
    const weights = await weigh(items.map(({ path }) => path));
    return items.map((item, index) => ({ ...item, ...weights[index]! }));
  };

  return {
    /** What there is, with the projects and workspaces of one organization. */
    async get(organization: string): Promise<Storage> {
      if (!known || clock.now() - known.at >= fresh) {
        const items = measure();
        known = { at: clock.now(), items };
        items.catch(() => (known = undefined));
      }
      const { at, items } = known;
      const all = await items;
      const { bavail, blocks, bsize } = await statfs(data);
      const projects = new Map<string, Storage['projects'][number]>();
      const workspaces: Storage['workspaces'] = [];
      const ofProject = (project_id: string) => {
        const name = project(project_id)?.name ?? null;
        const sum = projects.get(project_id) ?? { project_id, name, checkpoint_bytes: 0, workspace_bytes: 0 };
        projects.set(project_id, sum);
        return sum;
      };
      for (const { id, kind, bytes } of all) {
        if (id === null) continue;
        if (kind === 'checkpoints' && project(id)?.organization_id === organization)
          ofProject(id).checkpoint_bytes += bytes;
        const one = kind === 'workspaces' ? workspace(id) : undefined;
        if (one?.organization_id !== organization) continue;
        ofProject(one.project_id).workspace_bytes += bytes;
        workspaces.push({ workspace_id: id, project_id: one.project_id, name: one.name, bytes });
      }
      const sum = (kind: StorageKind, key: keyof Weight) =>
        all.reduce((total, item) => (item.kind === kind ? total + item[key] : total), 0);
      return {
        computed_at: iso(at),
        disk: { free_bytes: bavail * bsize, capacity_bytes: blocks * bsize },
        total_bytes: all.reduce((total, { bytes }) => total + bytes, 0),
        data: order.map((kind) => ({ kind, bytes: sum(kind, 'bytes'), files: sum(kind, 'files') })),
        projects: [...projects.values()]
          .toSorted((a, b) => b.checkpoint_bytes + b.workspace_bytes - (a.checkpoint_bytes + a.workspace_bytes))
          .slice(0, most),
        workspaces: workspaces.toSorted((a, b) => b.bytes - a.bytes).slice(0, most),
      };
    },
  };
}
