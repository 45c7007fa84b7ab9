-- What runs have left: copied when they end, so that later edits change nothing. The bytes lie in data/artifacts/blobs, named by
-- their SHA-256; several rows may stand for the same ones.
CREATE TABLE artifacts (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  run_id          TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  workspace_id    TEXT NOT NULL,
  name            TEXT NOT NULL,
  path            TEXT NOT NULL,
  kind            TEXT NOT NULL,
  media_type      TEXT NOT NULL,
  size_bytes      INTEGER NOT NULL,
  sha256          TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX artifacts_of_run ON artifacts (run_id, key);
CREATE INDEX artifacts_by_bytes ON artifacts (sha256);

-- The globs by which a run names what it leaves.
ALTER TABLE runs ADD COLUMN artifacts TEXT NOT NULL DEFAULT '[]';
