-- An agent is its newest revision; a revision is never changed, so that what a run has resolved can be looked up for ever.
CREATE TABLE agents (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  revision        INTEGER NOT NULL,
  archived_at     TEXT,
  created_at      TEXT NOT NULL
) STRICT;
CREATE INDEX agents_of_organization ON agents (organization_id, key);

CREATE TABLE agent_revisions (
  key             INTEGER PRIMARY KEY,
  agent_id        TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  revision        INTEGER NOT NULL,
  name            TEXT NOT NULL,
  description     TEXT,
  harness         TEXT,
  model           TEXT,
  instructions    TEXT,
  limits          TEXT NOT NULL,
  permission_mode TEXT NOT NULL,
  on_input        TEXT NOT NULL,
  metadata        TEXT NOT NULL,
  updated_at      TEXT NOT NULL,
  UNIQUE (agent_id, revision)
) STRICT;

-- A fork goes on after this run of another session.
ALTER TABLE sessions ADD COLUMN forked_from_run_id TEXT;

-- What a person has allowed for good in a project: a call that is just this one is not asked about again.
CREATE TABLE grants (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  project_id      TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
  harness         TEXT NOT NULL,
  kind            TEXT NOT NULL,
  tool            TEXT NOT NULL,
  pattern         TEXT NOT NULL,
  run_id          TEXT NOT NULL,
  request_id      TEXT NOT NULL,
  created_by      TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL,
  UNIQUE (project_id, harness, kind, tool, pattern)
) STRICT;
CREATE INDEX grants_of_organization ON grants (organization_id, key);

-- What "always" would allow, for a request that one can say it of.
ALTER TABLE inputs ADD COLUMN "grant" TEXT;
