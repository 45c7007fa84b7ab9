import type { Agent } from '../../src/api/agents.ts';
import type { App } from '../../src/app.ts';
import type { Context, Handlers } from '../bind.ts';

type Routes = 'listAgents' | 'createAgent' | 'getAgent' | 'updateAgent' | 'deleteAgent' | 'listAgentRevisions';

const tagged = ({ headers }: Context, agent: Agent): Agent => {
  headers.etag = `"${agent.revision}"`;
  return agent;
};

export const agentRoutes = ({ agents }: App): Pick<Handlers, Routes> => ({
  listAgents: ({ query }, { principal, paging }) => agents.list(principal.organization_id, query, paging()),
  createAgent: ({ body }, context) =>
    tagged(context, agents.create(context.tx, context.principal.organization_id, body)),
  getAgent: ({ path, query }, context) =>
    tagged(context, agents.get(context.principal.organization_id, path.agent_id, query.revision)),
  updateAgent: ({ path, body, headers }, context) =>
    tagged(
      context,
      agents.update(context.tx, context.principal.organization_id, path.agent_id, body, headers['if-match']),
    ),
  deleteAgent: ({ path }, { principal, tx }) => agents.archive(tx, principal.organization_id, path.agent_id),
  listAgentRevisions: ({ path }, { principal, paging }) =>
    agents.revisions(principal.organization_id, path.agent_id, paging()),
});
