import type { Agent } from '../api/agents.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns } from '../base/rows.ts';

/** What one revision says. */
export type Definition = Omit<Agent, 'id' | 'organization_id' | 'revision' | 'tools' | 'archived_at' | 'created_at'>;

const columns = `r.name, r.description, r.harness, r.model, r.instructions, r.limits, r.permission_mode, r.on_input,
  r.metadata, r.revision, max(r.updated_at, coalesce(a.archived_at, '')) AS updated_at, a.id, a.organization_id, a.archived_at, a.created_at`;
const read = reader<Agent>({ json: ['limits', 'metadata'] });

/** A revision's row as the wire has it. */
export const toAgent = (row: { key: number }): Agent => {
  const { key: _, ...agent } = read(row as never) as Agent & { key?: number };
  return { ...agent, tools: [] };
};

export const createStore = (db: Db) => ({
  add(agent: Pick<Agent, 'id' | 'organization_id' | 'revision' | 'created_at'>) {
    db.insert(insertSql('agents', agent), agent);
  },

  /** Keeps a revision, and makes it the agent's newest. */
  revise(id: string, revision: number, definition: Definition) {
    const row = { ...toColumns(definition), agent_id: id, revision };
    db.insert(insertSql('agent_revisions', row), row);
    db.run('UPDATE agents SET revision = ? WHERE id = ?', [revision, id]);
  },

  /** As it was at a revision; the newest when there is none given. */
  find(id: string, revision?: number): Agent | undefined {
    const row = db.get<{ key: number }>(
      `SELECT r.key, ${columns} FROM agents a JOIN agent_revisions r ON r.agent_id = a.id AND r.revision = coalesce(?, a.revision)
       WHERE a.id = ?`,
      [revision ?? null, id],
    );
    return row && toAgent(row);
  },

  list(organization: string, archived: boolean | undefined, after: number | null, limit: number) {
    const which = archived === undefined ? '' : ` AND a.archived_at IS ${archived ? 'NOT NULL' : 'NULL'}`;
    return db.all<{ key: number }>(
      `SELECT a.key, ${columns} FROM agents a JOIN agent_revisions r ON r.agent_id = a.id AND r.revision = a.revision
       WHERE a.organization_id = ?${which} AND a.key < ? ORDER BY a.key DESC LIMIT ?`,
      [organization, after ?? Number.MAX_SAFE_INTEGER, limit],
    );
  },

  /** Revisions of an agent, newest first; their keys are their numbers. */
  revisions: (id: string, after: number | null, limit: number) =>
    db.all<{ key: number }>(
      `SELECT r.revision AS key, ${columns} FROM agents a JOIN agent_revisions r ON r.agent_id = a.id
       WHERE a.id = ? AND r.revision < ? ORDER BY r.revision DESC LIMIT ?`,
      [id, after ?? Number.MAX_SAFE_INTEGER, limit],
    ),

  archive: (id: string, at: string) =>
    db.run('UPDATE agents SET archived_at = ? WHERE id = ? AND archived_at IS NULL', [at, id]),
});
