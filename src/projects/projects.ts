import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { Operation } from '../api/operations.ts';
import type { Project, ProjectCreate, ProjectPatch } from '../api/projects.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { assertMove } from '../base/machine.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { Operations } from '../operations/operations.ts';
import { projectStates } from './state.ts';
import { createStore, toProject } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  operations: Operations;
  /** Whether any run of the project has not ended. */
  hasOpenRuns(project: string): boolean;
  /** Removes all that belongs to a project: runs and their history, workspaces and their files. May be repeated. */
  purge(project: string): Promise<void>;
}

/** An ephemeral project is archived this long after its last run, in milliseconds. */
const ephemeralFor = 86_400_000;

/** Projects: they hold workspaces and runs, can be archived, and removed for good on a schedule. */
export function createProjects({ db, clock, operations, hasOpenRuns, purge }: Needs) {
  const store = createStore(db);

  const get = (organization: string, id: string): Project => {
    const project = store.find(id);
    if (!project || project.organization_id !== organization)
      throw new Fault('not_found', `There is no project ${id}.`);
    return project;
  };

  const move = (_tx: Tx, project: Project, to: Project['status']): void => {
    assertMove(projectStates, 'project', project.status, to);
    const now = iso(clock.now());
    const archived = to === 'archived';
    store.update(project.id, { status: to, archived, archived_at: archived ? now : null, updated_at: now });
  };

  operations.handle('project.archive', ({ project_id }: { project_id: string }) => {
    const project = store.find(project_id);
    if (!project || project.status === 'archived') return { done: null };
    if (hasOpenRuns(project_id)) return { wait: null };
    db.write((tx) => {
      if (project.status === 'active') move(tx, project, 'archiving');
      move(tx, store.find(project_id)!, 'archived');
    });
    return { done: null };
  });

  operations.handle('project.delete', async ({ project_id }: { project_id: string }) => {
    await purge(project_id);
    db.write(() => store.remove(project_id));
    return { done: null };
  });

  const submit = (tx: Tx, project: Project, type: 'project.archive' | 'project.delete', due?: number): Operation =>
    operations.submit(tx, {
      type,
      organization_id: project.organization_id,
      resource: { type: 'project', id: project.id },
      input: { project_id: project.id },
      ...(due === undefined ? {} : { due }),
    });

  return {
    get,
    find: store.find,

    list(organization: string, filter: { query?: string; archived?: boolean }, paging: Paging): Page<Project> {
      return toPage(store.list(organization, filter, paging.after, paging.limit + 1), paging, toProject);
    },

    create(_tx: Tx, organization: string, body: ProjectCreate): Project {
      const now = iso(clock.now());
      const project: Project = {
        id: clock.id(),
        organization_id: organization,
        name: body.name,
        description: body.description ?? null,
        persistence: body.persistence ?? 'persistent',
        status: 'active',
        archived: false,
        archived_at: null,
        delete_after: null,
        metadata: body.metadata ?? {},
        created_at: now,
        updated_at: now,
      };
      store.add(project);
      return project;
    },

    /** Changes what is given. `archived: false` takes the project out of the archive and drops a scheduled removal. */
    update(tx: Tx, organization: string, id: string, { archived, ...fields }: ProjectPatch): Project {
      const project = get(organization, id);
      if (archived === false && project.status !== 'active') {
        operations.cancel(tx, id, 'project.archive');
        operations.cancel(tx, id, 'project.delete');
        move(tx, project, 'active');
        store.update(id, { delete_after: null });
      }
      store.update(id, { ...fields, updated_at: iso(clock.now()) });
      return get(organization, id);
    },

    /** Archives as soon as the runs have finished; no run starts from now on. */
    archive(tx: Tx, organization: string, id: string): Operation {
      const project = get(organization, id);
      if (project.status === 'archiving') {
        const open = operations.findOpen(id, 'project.archive');
        if (open) return open;
      }
      operations.cancel(tx, id, 'project.archive');
      if (project.status === 'active') move(tx, project, 'archiving');
      return submit(tx, project, 'project.archive');
    },

    /** Schedules the removal for good of an archived project. */
    scheduleDeletion(tx: Tx, organization: string, id: string, afterSeconds: number): Operation {
      const project = get(organization, id);
      if (project.status !== 'archived')
        throw new Fault('invalid_state', 'Only an archived project can be removed. Archive it first.', {
          details: { state: project.status },
        });
      operations.cancel(tx, id, 'project.delete');
      const due = clock.now() + afterSeconds * 1000;
      store.update(id, { delete_after: iso(due), updated_at: iso(clock.now()) });
      return submit(tx, project, 'project.delete', due);
    },

    cancelDeletion(tx: Tx, organization: string, id: string): Project {
      const project = get(organization, id);
      if (project.delete_after === null)
        throw new Fault('invalid_state', 'No removal of this project is scheduled.', {
          details: { state: project.status },
        });
      operations.cancel(tx, id, 'project.delete');
      store.update(id, { delete_after: null, updated_at: iso(clock.now()) });
      return get(organization, id);
    },

    /** The project, if work may begin in it; `project_archived` otherwise. */
    getActive(organization: string, id: string): Project {
      const project = get(organization, id);
      if (project.status !== 'active')
        throw new Fault(
          'project_archived',
          `The project "${project.name}" is ${project.status}; take it out of the archive first.`,
        );
      return project;
    },

    /** A run of the project began or ended: puts off the end of an ephemeral one. */
    touch(tx: Tx, id: string): void {
      const project = store.find(id);
      if (project?.persistence !== 'ephemeral' || project.status !== 'active') return;
      operations.cancel(tx, id, 'project.archive');
      submit(tx, project, 'project.archive', clock.now() + ephemeralFor);
    },
  };
}
export type Projects = ReturnType<typeof createProjects>;
