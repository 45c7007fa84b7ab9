import { Type } from 'typebox';
import {
  ApiKey,
  ApiKeyCreate,
  BrowserSession,
  BrowserSessionCreate,
  Member,
  MemberCreate,
  NewApiKey,
  Organization,
  OrganizationCreate,
  OrganizationPatch,
  SignInCode,
} from '../access.ts';
import { page, paging } from '../common.ts';
import { type Endpoint, row } from '../endpoint.ts';
import { Empty } from '../runs.ts';

const Paging = Type.Object(paging);

/** Who may call: keys, organizations and their members, sessions of browsers. */
export const accessRows = {
  listApiKeys: row('GET /v1/api-keys', {
    summary: 'List API keys, newest first, revoked ones too',
    scope: 'keys:write',
    query: Paging,
    status: 200,
    reply: page(ApiKey),
  }),
  createApiKey: row('POST /v1/api-keys', {
    summary: 'Create an API key; its value is shown this once',
    scope: 'keys:write',
    body: ApiKeyCreate,
    status: 201,
    reply: NewApiKey,
    secret: 'key',
  }),
  revokeApiKey: row('DELETE /v1/api-keys/{key_id}', {
    summary: 'Revoke an API key, at once',
    scope: 'keys:write',
    status: 204,
  }),

  listOrganizations: row('GET /v1/organizations', {
    summary: 'List the organizations that the caller is a member of, newest first',
    scope: null,
    query: Paging,
    status: 200,
    reply: page(Organization),
  }),
  createOrganization: row('POST /v1/organizations', {
    summary: 'Create an organization (local session only)',
    scope: null,
    body: OrganizationCreate,
    status: 201,
    reply: Organization,
  }),
  getOrganization: row('GET /v1/organizations/{organization_id}', {
    summary: 'Get an organization',
    scope: null,
    status: 200,
    reply: Organization,
  }),
  updateOrganization: row('PATCH /v1/organizations/{organization_id}', {
    summary: 'Change an organization’s name or credit policy (local session only)',
    scope: null,
    body: OrganizationPatch,
    status: 200,
    reply: Organization,
  }),
  listMembers: row('GET /v1/organizations/{organization_id}/members', {
    summary: 'List the members of an organization, newest first',
    scope: null,
    query: Paging,
    status: 200,
    reply: page(Member),
  }),
  addMember: row('POST /v1/organizations/{organization_id}/members', {
    summary: 'Let the user of an OAuth issuer act in an organization (local session only)',
    scope: null,
    body: MemberCreate,
    status: 201,
    reply: Member,
  }),
  removeMember: row('DELETE /v1/organizations/{organization_id}/members/{user_id}', {
    summary: 'Take a member out of an organization (local session only)',
    scope: null,
    status: 204,
  }),

  createSignInCode: row('POST /v1/auth/codes', {
    summary: 'Make a code that lets a browser in, once, within a minute (local session only)',
    scope: null,
    body: Empty,
    status: 201,
    reply: SignInCode,
    secret: 'code',
  }),
  createBrowserSession: row('POST /v1/auth/session', {
    summary: 'Exchange a code for the session of a browser',
    scope: null,
    open: true,
    body: BrowserSessionCreate,
    status: 201,
    reply: BrowserSession,
  }),
  rotateSession: row('POST /v1/auth/rotate', {
    summary: 'Replace the local session’s token and end the sessions of all browsers (local session only)',
    scope: null,
    body: Empty,
    status: 204,
  }),
} as const satisfies Record<string, Endpoint>;
