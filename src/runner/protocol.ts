import type { GrantPattern } from '../api/grants.ts';
import type { InputAnswer, InputDraft } from '../api/inputs.ts';
import type { Network } from '../api/network.ts';
import type {
  FileChange,
  Isolation,
  OnInput,
  PermissionMode,
  RunErrorCode,
  StopReason,
  TerminalStatus,
} from '../api/runs.ts';
import type { ModelCall, Usage } from '../api/usage.ts';
import type { VigilSettings } from './vigil.ts';
import type { HarnessLaunch, HarnessLogin } from '../harness/row.ts';
import type { Route } from '../providers/access.ts';
import type { Relay } from './sandbox/relay.ts';

/**
 * What passes between the daemon and a run's own process. The daemon sends one RunSpec line on the runner's standard input;
 * all that happens comes back through the spool; commands go over the unix socket `ctl.sock` in the run's folder, one JSON
 * object a line, each with the spec's nonce. The runner writes `{"wake":<bytes>}` on every connection when the spool has grown
 * to that many bytes: a wake-up carries no data.
 */
export const protocolVersion = 1;

/** Files of a run's folder. */
export const runFiles = {
  spool: 'spool',
  socket: 'ctl.sock',
  identity: 'runner.json',
  harness: 'harness.json',
  /** The socket of the way out of the sandbox. */
  egress: 'egress.sock',
  /** The model gateway's socket. */
  gateway: 'gateway.sock',
  /** The empty folders that stand in the workspace while it is guarded. */
  placed: 'placed.json',
  /** A folder: the whole output of tool calls that was too long for events, a file each, named by the call. */
  output: 'output',
  /** A folder: what the harness puts there becomes artifacts of the run. */
  artifacts: 'artifacts',
} as const;

/** A process for ever: a pid alone may be somebody else's tomorrow. */
export interface ProcessIdentity {
  pid: number;
  /** Field 22 of /proc/<pid>/stat where there is one, otherwise what `ps -o lstart` says. */
  started: string;
  boot_id: string;
}

/** The gateway of a run: where its calls of models go, and the key that its harness shows for itself. */
export interface GatewaySpec extends Route {
  key: string;
}

/** How a run is enclosed. */
export interface SandboxSpec {
  isolation: Isolation;
  /** The absolute path of bubblewrap. */
  program: string;
  /** What passes connections on inside. */
  relay: Relay;
  /** What the run may reach. */
  network: Network;
  /** What the harness needs of the user's home; null for one that works without a login of the user's own. */
  login: HarnessLogin | null;
  /** Folders that the run must not see, wherever they lie. */
  hidden: string[];
}

/** Everything a runner needs to know; sent once, kept nowhere on disk. */
export interface RunSpec {
  version: typeof protocolVersion;
  run_id: string;
  /** Proves that a command comes from a daemon that knows this run. */
  nonce: string;
  /** The run's folder, absolute, mode 0700: spool, socket, runner.json. */
  folder: string;
  /** The session's private folder, absolute, mode 0700: a harness keeps its own state here. */
  session_folder: string;
  /** Where the harness may put files that become artifacts, absolute, made before the run begins: `AGENTCTL_ARTIFACTS`. */
  artifacts_folder: string;
  workspace: { path: string; revision: number };
  attempt: number;
  harness: HarnessLaunch;
  /** Null where the harness calls models by itself, with its own login. */
  gateway: GatewaySpec | null;
  model: string | null;
  prompt: string;
  /** What the harness is to be told besides, in its own place for it or before the first prompt of the conversation. */
  instructions: string | null;
  /** What the harness calls this conversation, when it has been going on. */
  native_session_id: string | null;
  /** What was said before, for a harness that cannot resume; oldest first. */
  transcript: { role: 'user' | 'assistant'; text: string }[];
  /** The clean environment of the harness, before `harness.env`. */
  env: Record<string, string>;
  limits: { timeout_seconds: number | null; max_cost_micro_usd: string | null; max_turns: number | null };
  permission_mode: PermissionMode;
  on_input: OnInput;
  input_timeout_seconds: number;
  /** What a person has allowed for good. */
  grants: (GrantPattern & { id: string })[];
  /** The JSON Schema that the final answer must fit; null for none. */
  output_schema: Record<string, unknown> | null;
  /** Null where nothing is enforced. */
  sandbox: SandboxSpec | null;
  vigil: VigilSettings;
  /** Bytes of output after which the run is failed. */
  max_output_bytes: number;
  /** Seconds between SIGTERM and SIGKILL. */
  grace_seconds: number;
}

/** Contents of runner.json: written, and flushed, before the harness is started. */
export interface RunnerIdentity extends ProcessIdentity {
  version: typeof protocolVersion;
  run_id: string;
  nonce: string;
}

/** Contents of harness.json, written right after the harness was started: how to find its processes without the runner. */
export interface HarnessTraces {
  version: typeof protocolVersion;
  run_id: string;
  harness: ProcessIdentity | null;
  /** What the harness' standard streams lead to, as /proc/<pid>/fd names it; empty where there is none. */
  pipes: string[];
  /** The harness is bubblewrap, and all others are inside: they have their own process ids there, and end with it. */
  enclosed: boolean;
}

/** The control records of the spool. The daemon turns them into state and, where the contract names one, an event. */
export type ControlRecord =
  /** The harness runs. Makes the run `running`. */
  | { record: 'started'; at: string; harness_version: string | null; harness_path?: string; model: string | null }
  /** What the harness calls the conversation, for the next run of the session. */
  | { record: 'session'; native_session_id: string }
  /** Figures so far; `limit_percent` of the cost and time limits, null where there is none. */
  | { record: 'usage'; at: string; usage: Usage; limit_percent: { cost: number | null; time: number | null } }
  /** A call of a model through the gateway. */
  | { record: 'call'; call: ModelCall }
  /** The tree differs from when it was last looked at. */
  | { record: 'changed'; at: string; changes: { path: string; change: FileChange['change'] }[] }
  /** A question to a person; the harness waits. */
  | { record: 'input'; at: string; request: InputDraft }
  /** A question that found its end in the runner: expired, or withdrawn because the run ended or the harness took it back. */
  | { record: 'input_closed'; at: string; request_id: string; status: 'expired' | 'cancelled' }
  /** The last record of a spool. */
  | {
      record: 'final';
      at: string;
      status: TerminalStatus;
      stop_reason: StopReason;
      error: { code: RunErrorCode; message: string; retryable: boolean; details: Record<string, unknown> } | null;
      usage: Usage;
      text: string | null;
      /** The final answer in the form asked for; null, or left out by an older runner, where there is none. */
      structured_output?: { value: unknown } | null;
      changes: { path: string; change: FileChange['change'] }[];
    };

/** What the daemon may say to a runner. Each may be repeated; a runner does it once. */
export type Command =
  | { command: 'cancel' }
  | { command: 'answer'; request_id: string; answer: InputAnswer }
  /** All that is allowed for good from now on. */
  | { command: 'grants'; grants: RunSpec['grants'] }
  | { command: 'ping' };
export type CommandLine = Command & { nonce: string };
