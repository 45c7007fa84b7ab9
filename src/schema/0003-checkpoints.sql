-- The trees themselves lie in data/trees/<project>. `exclude` is what was left out, so that a restore leaves it alone.
CREATE TABLE checkpoints (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name            TEXT,
  status          TEXT NOT NULL,
  "trigger"       TEXT NOT NULL,
  run_id          TEXT,
  parent_id       TEXT,
  revision        INTEGER NOT NULL,
  tree_hash       TEXT,
  file_count      INTEGER,
  size_bytes      INTEGER,
  stored_bytes    INTEGER,
  verified_at     TEXT,
  expires_at      TEXT,
  error           TEXT,
  metadata        TEXT NOT NULL,
  exclude         TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX checkpoints_of_workspace ON checkpoints (workspace_id, key);

-- A restore that is past its point of no return: from here on it is carried out, whatever happens.
CREATE TABLE restores (
  operation_id TEXT PRIMARY KEY,
  plan         TEXT NOT NULL,
  -- All is in place; what was staged may be removed.
  applied      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Whether a run keeps the tree before it begins and after it has ended.
ALTER TABLE runs ADD COLUMN checkpoint TEXT NOT NULL DEFAULT '{"before":true,"after":true}';
