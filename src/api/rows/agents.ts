import { Type } from 'typebox';
import { Agent, AgentCreate, AgentGet, AgentList, AgentPatch, AgentPrecondition } from '../agents.ts';
import { page, paging } from '../common.ts';
import { type Endpoint, row } from '../endpoint.ts';

/** Agents and their revisions. */
export const agentRows = {
  listAgents: row('GET /v1/agents', {
    summary: 'List agents, newest first',
    scope: 'runs:read',
    query: AgentList,
    status: 200,
    reply: page(Agent),
  }),
  createAgent: row('POST /v1/agents', {
    summary: 'Create an agent at its first revision',
    scope: 'runs:write',
    body: AgentCreate,
    status: 201,
    reply: Agent,
  }),
  getAgent: row('GET /v1/agents/{agent_id}', {
    summary: 'Get an agent, or one of its revisions',
    scope: 'runs:read',
    query: AgentGet,
    status: 200,
    reply: Agent,
  }),
  updateAgent: row('PATCH /v1/agents/{agent_id}', {
    summary: 'Make the next revision of an agent',
    scope: 'runs:write',
    headers: AgentPrecondition,
    body: AgentPatch,
    status: 200,
    reply: Agent,
  }),
  deleteAgent: row('DELETE /v1/agents/{agent_id}', {
    summary: 'Archive an agent; what has begun with it goes on',
    scope: 'runs:write',
    status: 204,
  }),
  listAgentRevisions: row('GET /v1/agents/{agent_id}/revisions', {
    summary: 'List the revisions of an agent, newest first',
    scope: 'runs:read',
    query: Type.Object(paging),
    status: 200,
    reply: page(Agent),
  }),
} as const satisfies Record<string, Endpoint>;
