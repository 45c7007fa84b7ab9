import type { ApiKey, Member, Organization } from '../api/access.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

export interface Membership {
  organization_id: string;
  name: string;
  role: string;
}
export interface User {
  id: string;
  name: string;
}
/** A user of an OAuth issuer. */
interface Subject extends User {
  issuer: string;
  subject: string;
}

const organizationColumns = 'id, name, credit_policy, created_at, updated_at';
const keyColumns =
  'key, id, organization_id, name, prefix, last4, scopes, created_by, expires_at, last_used_at, revoked_at, created_at, updated_at';
const readKey = reader<ApiKey>({ json: ['scopes'] });

/** A key's row as the wire has it. */
export const toApiKey = (row: object): ApiKey => {
  const { key: _, ...apiKey } = readKey(row as never) as ApiKey & { key?: number };
  return apiKey;
};

export const createStore = (db: Db) => ({
  owner: (): User | undefined => db.get('SELECT id, name FROM users ORDER BY key LIMIT 1'),
  userOf: (issuer: string, subject: string): User | undefined =>
    db.get('SELECT id, name FROM users WHERE issuer = ? AND subject = ?', [issuer, subject]),
  addUser(user: User | Subject, now: string) {
    const row = { issuer: null, subject: null, ...user, created_at: now, updated_at: now };
    db.run(insertSql('users', row), row);
  },

  organization: (id: string): Organization | undefined =>
    db.get(`SELECT ${organizationColumns} FROM organizations WHERE id = ?`, [id]),
  addOrganization(organization: Organization) {
    db.run(insertSql('organizations', { ...organization }), { ...organization });
  },
  updateOrganization(id: string, fields: Partial<Organization>) {
    const row = { ...fields, id };
    db.run(updateSql('organizations', row), row);
  },
  organizationsOfUser: (user: string, after: number | null, limit: number): (Organization & { key: number })[] =>
    db.all(
      `SELECT key, ${organizationColumns} FROM organizations
       WHERE key < :after AND id IN (SELECT organization_id FROM memberships WHERE user_id = :user) ORDER BY key DESC LIMIT :limit`,
      { user, limit, after: after ?? Number.MAX_SAFE_INTEGER },
    ),

  /** The organizations of a user, without a join: it is asked with every request. */
  organizationsOf: (user: string): { organization_id: string }[] =>
    db.all('SELECT organization_id FROM memberships WHERE user_id = ?', [user]),
  memberships: (user: string): Membership[] =>
    db.all(
      `SELECT organization_id, name, role FROM memberships JOIN organizations ON organizations.id = organization_id
       WHERE user_id = ? ORDER BY organizations.key`,
      [user],
    ),
  members: (organization: string, after: number | null, limit: number): (Member & { key: number })[] =>
    db.all(
      `SELECT users.key AS key, user_id, name, role, issuer, subject FROM memberships JOIN users ON users.id = user_id
       WHERE organization_id = :organization AND users.key < :after ORDER BY users.key DESC LIMIT :limit`,
      { organization, limit, after: after ?? Number.MAX_SAFE_INTEGER },
    ),
  member: (organization: string, user: string): { role: string } | undefined =>
    db.get('SELECT role FROM memberships WHERE organization_id = ? AND user_id = ?', [organization, user]),
  addMember(organization: string, user: string, role: Member['role']) {
    db.run('INSERT OR IGNORE INTO memberships (user_id, organization_id, role) VALUES (?, ?, ?)', [
      user,
      organization,
      role,
    ]);
  },
  removeMember: (organization: string, user: string) =>
    db.run('DELETE FROM memberships WHERE organization_id = ? AND user_id = ?', [organization, user]),

  addKey(apiKey: ApiKey, hash: string) {
    const row = toColumns({ ...apiKey, hash });
    db.run(insertSql('api_keys', row), row);
  },
  keyByHash: (hash: string): ApiKey | undefined => {
    const row = db.get<object>(`SELECT ${keyColumns} FROM api_keys WHERE hash = ?`, [hash]);
    return row && toApiKey(row);
  },
  findKey: (id: string): ApiKey | undefined => {
    const row = db.get<object>(`SELECT ${keyColumns} FROM api_keys WHERE id = ?`, [id]);
    return row && toApiKey(row);
  },
  keys: (organization: string, after: number | null, limit: number): { key: number }[] =>
    db.all(
      `SELECT ${keyColumns} FROM api_keys WHERE organization_id = :organization AND key < :after ORDER BY key DESC LIMIT :limit`,
      { organization, limit, after: after ?? Number.MAX_SAFE_INTEGER },
    ),
  updateKey(id: string, fields: Partial<ApiKey>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('api_keys', row), row);
  },

  addBrowser: (kind: 'code' | 'session', hash: string, expires_at: string) =>
    db.run('INSERT INTO browser_sessions (hash, kind, expires_at) VALUES (?, ?, ?)', [hash, kind, expires_at]),
  browser: (kind: 'code' | 'session', hash: string, now: string): { expires_at: string } | undefined =>
    db.get('SELECT expires_at FROM browser_sessions WHERE hash = ? AND kind = ? AND expires_at > ?', [hash, kind, now]),
  removeBrowser: (hash: string) => db.run('DELETE FROM browser_sessions WHERE hash = ?', [hash]),
  removeBrowsers: (before: string | null) =>
    before === null
      ? db.run('DELETE FROM browser_sessions')
      : db.run('DELETE FROM browser_sessions WHERE expires_at <= ?', [before]),

  setting: (name: string): string | undefined =>
    db.get<{ value: string }>('SELECT value FROM settings WHERE name = ?', [name])?.value,
  set: (name: string, value: string) =>
    db.run('INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)', [name, value]),
});
export type Store = ReturnType<typeof createStore>;
