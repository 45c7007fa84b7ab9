import type { Agent } from '../api/agents.ts';
import { Fault } from '../api/error.ts';
import type { RunCreate } from '../api/runs.ts';
import type { Session } from '../api/sessions.ts';
import type { Agents } from '../agents/agents.ts';
import type { Config } from '../base/config.ts';
import type { Registry } from '../harness/registry.ts';
import type { RunRow } from './store.ts';

interface Needs {
  config: Config;
  registry: Registry;
  agents: Agents;
}

/** What a run or a session says of itself, as far as an agent may say it for it. */
type Asked = Pick<
  RunCreate,
  'agent_id' | 'agent_revision' | 'harness' | 'model' | 'limits' | 'permission_mode' | 'on_input'
>;
export type Resolved = Pick<
  RunRow,
  'agent_id' | 'agent_revision' | 'harness' | 'model' | 'limits' | 'permission_mode' | 'on_input'
>;

const refusal = (param: string, message: string): Fault =>
  new Fault('invalid_request', message, { param, details: { errors: [{ path: `/${param}`, message }] } });

/** Who does a run and how: what the request says, else its session, else its agent, else the configuration. */
export function createResolving({ config, registry, agents }: Needs) {
  /** The agent at the revision that counts; a session keeps the one that it began with, archived or not. */
  const agentOf = (organization: string, asked: Asked, session: Session | undefined): Agent | undefined => {
    const { agent_id, agent_revision } = asked;
    if (session) {
      if (agent_id !== undefined && agent_id !== session.agent_id)
        throw refusal('agent_id', 'A session keeps the agent that it began with. Begin a new one for another agent.');
      if (agent_revision !== undefined && agent_revision !== session.agent_revision)
        throw refusal(
          'agent_revision',
          'A session keeps the revision that it began with. Begin a new one for another.',
        );
      return session.agent_id === null
        ? undefined
        : agents.get(organization, session.agent_id, session.agent_revision ?? undefined);
    }
    if (agent_id !== undefined) return agents.getUsable(organization, agent_id, agent_revision);
    if (agent_revision !== undefined) throw refusal('agent_revision', 'Name the agent that this is a revision of.');
    return undefined;
  };

  const harnessOf = (asked: Asked, session: Session | undefined, agent: Agent | undefined): string => {
    const id = asked.harness ?? session?.harness ?? agent?.harness ?? config.default_harness;
    if (id === undefined) throw refusal('harness', 'Name a harness: none is configured as default_harness.');
    if (!registry.has(id))
      throw refusal('harness', `There is no harness "${id}". Known ones: ${registry.ids().join(', ')}.`);
    if (session && session.harness !== id)
      throw refusal('harness', `The session uses the harness "${session.harness}" and cannot change to "${id}".`);
    return id;
  };

  /** Throws `invalid_request`; `not_found` or `invalid_state` for an agent that is not there or archived. */
  return (organization: string, asked: Asked, session?: Session): Resolved => {
    const agent = agentOf(organization, asked, session);
    const harness = harnessOf(asked, session, agent);
    if (agent && agent.instructions !== null && registry.kind(harness) === 'shell')
      throw refusal('harness', `The agent "${agent.name}" has instructions, and a shell takes none.`);
    // A model is one of a harness: with another harness the agent's own says nothing.
    const suits = agent && (agent.harness === null || agent.harness === harness);
    return {
      agent_id: agent?.id ?? null,
      agent_revision: agent?.revision ?? null,
      harness,
      model: asked.model ?? session?.model ?? (suits ? agent.model : null),
      limits: { ...agent?.limits, ...asked.limits },
      permission_mode: asked.permission_mode ?? agent?.permission_mode ?? 'ask',
      on_input: asked.on_input ?? agent?.on_input ?? 'ask',
    };
  };
}
export type Resolving = ReturnType<typeof createResolving>;
