-- Integer keys inside, UUIDs at the door. Columns bear the wire's names; objects are JSON text, booleans 0 or 1, times RFC 3339.

CREATE TABLE settings (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE organizations (
  key           INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  name          TEXT NOT NULL,
  credit_policy TEXT NOT NULL,
  created_at    TEXT NOT NULL,
  updated_at    TEXT NOT NULL
) STRICT;

CREATE TABLE users (
  key        INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  name       TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE memberships (
  user_id         TEXT NOT NULL REFERENCES users (id),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  role            TEXT NOT NULL,
  PRIMARY KEY (user_id, organization_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  organization_id TEXT NOT NULL,
  key             TEXT NOT NULL,
  fingerprint     TEXT NOT NULL,
  resource_id     TEXT,
  status          INTEGER NOT NULL,
  headers         TEXT NOT NULL,
  body            TEXT,
  created_at      TEXT NOT NULL,
  PRIMARY KEY (organization_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

-- The one log. `body` is the event exactly as it is sent. `key` orders all events of all runs, for readers with a cursor of their own.
CREATE TABLE events (
  key      INTEGER PRIMARY KEY AUTOINCREMENT,
  run      INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  type     TEXT NOT NULL,
  body     TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_of_run ON events (run, sequence);

CREATE TABLE operations (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  type            TEXT NOT NULL,
  status          TEXT NOT NULL,
  resource        TEXT,
  resource_id     TEXT,
  input           TEXT NOT NULL,
  due_at          TEXT,
  progress        TEXT,
  result          TEXT,
  error           TEXT,
  started_at      TEXT,
  finished_at     TEXT,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX operations_by_resource ON operations (resource_id, key);
CREATE INDEX operations_open ON operations (status, key) WHERE status IN ('queued', 'running');

CREATE TABLE projects (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  name            TEXT NOT NULL,
  description     TEXT,
  persistence     TEXT NOT NULL,
  status          TEXT NOT NULL,
  archived        INTEGER NOT NULL,
  archived_at     TEXT,
  delete_after    TEXT,
  metadata        TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX projects_of_organization ON projects (organization_id, key);

CREATE TABLE workspaces (
  key                INTEGER PRIMARY KEY,
  id                 TEXT NOT NULL UNIQUE,
  organization_id    TEXT NOT NULL,
  project_id         TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
  name               TEXT NOT NULL,
  status             TEXT NOT NULL,
  source             TEXT NOT NULL,
  path               TEXT NOT NULL,
  revision           INTEGER NOT NULL,
  writer             TEXT,
  git                TEXT,
  base_checkpoint_id TEXT,
  delete_after       TEXT,
  error              TEXT,
  metadata           TEXT NOT NULL,
  created_at         TEXT NOT NULL,
  updated_at         TEXT NOT NULL
) STRICT;
CREATE INDEX workspaces_of_project ON workspaces (project_id, key);
-- Two workspaces on one directory would be two writers at a time.
CREATE UNIQUE INDEX workspaces_of_path ON workspaces (path) WHERE status <> 'deleted';

CREATE TABLE sessions (
  key               INTEGER PRIMARY KEY,
  id                TEXT NOT NULL UNIQUE,
  organization_id   TEXT NOT NULL,
  project_id        TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
  workspace_id      TEXT NOT NULL,
  agent_id          TEXT,
  agent_revision    INTEGER,
  harness           TEXT NOT NULL,
  model             TEXT,
  title             TEXT,
  status            TEXT NOT NULL,
  latest_run_id     TEXT,
  run_count         INTEGER NOT NULL,
  usage             TEXT NOT NULL,
  metadata          TEXT NOT NULL,
  native_session_id TEXT,
  created_at        TEXT NOT NULL,
  updated_at        TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_of_organization ON sessions (organization_id, key);
CREATE INDEX sessions_of_workspace ON sessions (workspace_id, key);

CREATE TABLE runs (
  key                   INTEGER PRIMARY KEY,
  id                    TEXT NOT NULL UNIQUE,
  organization_id       TEXT NOT NULL,
  project_id            TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
  workspace_id          TEXT NOT NULL,
  session_id            TEXT NOT NULL,
  agent_id              TEXT,
  agent_revision        INTEGER,
  harness               TEXT NOT NULL,
  model                 TEXT,
  prompt                TEXT NOT NULL,
  billing_mode          TEXT NOT NULL,
  limits                TEXT NOT NULL,
  permission_mode       TEXT NOT NULL,
  on_input              TEXT NOT NULL,
  input_timeout_seconds INTEGER NOT NULL,
  sandbox               TEXT NOT NULL,
  metadata              TEXT NOT NULL,
  status                TEXT NOT NULL,
  stop_reason           TEXT,
  error                 TEXT,
  usage                 TEXT NOT NULL,
  isolation             TEXT,
  checkpoint_ids        TEXT NOT NULL,
  last_sequence         INTEGER NOT NULL,
  queued_at             TEXT NOT NULL,
  started_at            TEXT,
  finished_at           TEXT,
  attempt               INTEGER NOT NULL,
  -- The result.
  text                  TEXT,
  changes               TEXT NOT NULL,
  -- Not on the wire: how far the spool has been read (bytes), who runs it, and when a stop was asked for.
  spool_offset          INTEGER NOT NULL DEFAULT 0,
  runner                TEXT,
  cancel_requested_at   TEXT,
  created_at            TEXT NOT NULL,
  updated_at            TEXT NOT NULL
) STRICT;
CREATE INDEX runs_of_organization ON runs (organization_id, key);
CREATE INDEX runs_by_created ON runs (organization_id, created_at);
CREATE INDEX runs_by_status ON runs (organization_id, status, key);
CREATE INDEX runs_of_project ON runs (project_id, key);
CREATE INDEX runs_of_workspace ON runs (workspace_id, key);
CREATE INDEX runs_of_session ON runs (session_id, key);
CREATE INDEX runs_open ON runs (status, key) WHERE status NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_by_end ON runs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE inputs (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  run_id          TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  kind            TEXT NOT NULL,
  title           TEXT NOT NULL,
  message         TEXT,
  tool_call_id    TEXT,
  options         TEXT NOT NULL,
  allow_text      INTEGER NOT NULL,
  schema          TEXT,
  status          TEXT NOT NULL,
  answer          TEXT,
  answered_by     TEXT,
  expires_at      TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX inputs_of_run ON inputs (run_id, key);
CREATE INDEX inputs_by_status ON inputs (organization_id, status, key);
