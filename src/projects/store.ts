import type { Project } from '../api/projects.ts';
import { type Db, fold } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

const columns =
  'key, id, organization_id, name, description, persistence, status, archived, archived_at, delete_after, metadata, created_at, updated_at';
const read = reader<Project>({ json: ['metadata'], flags: ['archived'] });

/** A project row as the wire has it. */
export const toProject = (row: { key: number }): Project => {
  const { key: _, ...project } = read(row as never) as Project & { key?: number };
  return project;
};

export const createStore = (db: Db) => ({
  add(project: Project) {
    const row = toColumns(project);
    db.insert(insertSql('projects', row), row);
  },

  find(id: string): Project | undefined {
    const row = db.get<{ key: number }>(`SELECT ${columns} FROM projects WHERE id = ?`, [id]);
    return row && toProject(row);
  },

  list(organization: string, filter: { query?: string; archived?: boolean }, after: number | null, limit: number) {
    const where = ['organization_id = :organization'];
    if (after !== null) where.push('key < :after');
    if (filter.query) where.push('instr(fold(name), :query) > 0');
    if (filter.archived !== undefined) where.push('archived = :archived');
    return db.all<{ key: number }>(
      `SELECT ${columns} FROM projects WHERE ${where.join(' AND ')} ORDER BY key DESC LIMIT :limit`,
      {
        organization,
        limit,
        ...(after === null ? {} : { after }),
        ...(filter.query ? { query: fold(filter.query) } : {}),
        ...(filter.archived === undefined ? {} : { archived: filter.archived ? 1 : 0 }),
      },
    );
  },

  update(id: string, fields: Partial<Project>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('projects', row), row);
  },

  remove: (id: string) => db.run('DELETE FROM projects WHERE id = ?', [id]),
});
