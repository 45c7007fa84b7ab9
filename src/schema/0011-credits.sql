-- What every run came to besides its calls of models; with whose it was. Rows stay when a run or its project is removed.
CREATE TABLE run_figures (
  run_id          TEXT PRIMARY KEY,
  organization_id TEXT NOT NULL,
  project_id      TEXT NOT NULL,
  workspace_id    TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  agent_id        TEXT,
  api_key_id      TEXT,
  harness         TEXT NOT NULL,
  model           TEXT,
  billing_mode    TEXT NOT NULL,
  at              TEXT NOT NULL,
  turns           INTEGER NOT NULL,
  tool_calls      INTEGER NOT NULL,
  duration_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_figures_by_time ON run_figures (organization_id, at, turns, tool_calls, duration_ms);

-- The sums of a range are in the index alone.
DROP INDEX model_calls_by_time;
CREATE INDEX model_calls_by_time ON model_calls (
  organization_id, at, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_micro_usd, cost_source
);

-- Credits in micro-USD: an account per organization that pays ahead, and everything that ever happened to it.
CREATE TABLE credit_accounts (
  organization_id TEXT PRIMARY KEY,
  balance         INTEGER NOT NULL,
  held            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_entries (
  key               INTEGER PRIMARY KEY,
  id                TEXT NOT NULL UNIQUE,
  organization_id   TEXT NOT NULL,
  kind              TEXT NOT NULL,
  amount_micro_usd  INTEGER NOT NULL,
  run_id            TEXT,
  note              TEXT,
  balance_after     INTEGER NOT NULL,
  held_after        INTEGER NOT NULL,
  created_at        TEXT NOT NULL
) STRICT;
CREATE INDEX credit_entries_of_organization ON credit_entries (organization_id, key);
-- Each of these happens to a run once.
CREATE UNIQUE INDEX credit_entries_of_run ON credit_entries (run_id, kind) WHERE run_id IS NOT NULL;
