import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

type Operations =
  | 'listApiKeys'
  | 'createApiKey'
  | 'revokeApiKey'
  | 'listOrganizations'
  | 'createOrganization'
  | 'getOrganization'
  | 'updateOrganization'
  | 'listMembers'
  | 'addMember'
  | 'removeMember'
  | 'createSignInCode'
  | 'createBrowserSession'
  | 'rotateSession';

export const accessRoutes = ({ access }: App): Pick<Handlers, Operations> => ({
  listApiKeys: (_input, { principal, paging }) => access.apiKeys.list(principal.organization_id, paging()),
  createApiKey: ({ body }, { principal, tx }) => access.apiKeys.create(tx, principal, body),
  revokeApiKey({ path }, { principal, tx }) {
    access.apiKeys.revoke(tx, principal.organization_id, path.key_id);
    return null;
  },

  listOrganizations: (_input, { principal, paging }) => access.organizations(principal, paging()),
  createOrganization: ({ body }, { principal }) => access.createOrganization(principal, body),
  getOrganization: ({ path }, { principal }) => access.organization(principal, path.organization_id),
  updateOrganization: ({ path, body }, { principal }) =>
    access.updateOrganization(principal, path.organization_id, body),
  listMembers: ({ path }, { principal, paging }) => access.members(principal, path.organization_id, paging()),
  addMember: ({ path, body }, { principal }) => access.addMember(principal, path.organization_id, body),
  removeMember({ path }, { principal }) {
    access.removeMember(principal, path.organization_id, path.user_id);
    return null;
  },

  createSignInCode(_input, { principal, origin }) {
    const { code, expires_at } = access.signInCode(principal);
    return { code, url: `${origin}/docs#code=${code}`, expires_at };
  },
  createBrowserSession: ({ body }) => access.enter(body.code),
  rotateSession(_input, { principal, tx }) {
    access.rotate(principal, tx);
    return null;
  },
});
