-- Where the repository stood, as JSON; null where there was none.
ALTER TABLE checkpoints ADD COLUMN git TEXT;
CREATE INDEX checkpoints_to_expire ON checkpoints (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX checkpoints_of_run ON checkpoints (run_id) WHERE run_id IS NOT NULL;

-- What runs changed whose checkpoints have expired: a unified diff, compressed.
CREATE TABLE diffs (
  run_id       TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  patch        BLOB NOT NULL,
  created_at   TEXT NOT NULL
) STRICT;
CREATE INDEX diffs_of_workspace ON diffs (workspace_id);

-- When work that nobody asks for was last done, and what came of it.
CREATE TABLE upkeep (
  name   TEXT PRIMARY KEY,
  at     TEXT NOT NULL,
  result TEXT NOT NULL
) STRICT, WITHOUT ROWID;
