import type { Db } from '../base/db.ts';

export interface Organization {
  id: string;
  name: string;
  credit_policy: 'unlimited' | 'prepaid';
}
export interface Membership {
  organization_id: string;
  name: string;
  role: string;
}
export interface User {
  id: string;
  name: string;
}

export const createStore = (db: Db) => ({
  owner: (): User | undefined => db.get('SELECT id, name FROM users ORDER BY key LIMIT 1'),
  organization: (id: string): Organization | undefined =>
    db.get('SELECT id, name, credit_policy FROM organizations WHERE id = ?', [id]),
  /** The organizations of a user, without a join: it is asked with every request. */
  organizationsOf: (user: string): { organization_id: string }[] =>
    db.all('SELECT organization_id FROM memberships WHERE user_id = ?', [user]),
  memberships: (user: string): Membership[] =>
    db.all(
      `SELECT organization_id, name, role FROM memberships JOIN organizations ON organizations.id = organization_id
       WHERE user_id = ? ORDER BY organizations.key`,
      [user],
    ),
  setting: (name: string): string | undefined =>
    db.get<{ value: string }>('SELECT value FROM settings WHERE name = ?', [name])?.value,
  set: (name: string, value: string) =>
    db.run('INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)', [name, value]),
  found(user: User, organization: Organization, now: string) {
    db.run('INSERT INTO users (id, name, created_at, updated_at) VALUES (?, ?, ?, ?)', [user.id, user.name, now, now]);
    db.run('INSERT INTO organizations (id, name, credit_policy, created_at, updated_at) VALUES (?, ?, ?, ?, ?)', [
      organization.id,
      organization.name,
      organization.credit_policy,
      now,
      now,
    ]);
    db.run('INSERT INTO memberships (user_id, organization_id, role) VALUES (?, ?, ?)', [
      user.id,
      organization.id,
      'owner',
    ]);
  },
});
