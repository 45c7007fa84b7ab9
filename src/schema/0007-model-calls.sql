-- Who sent the request for a run, when that was an API key.
ALTER TABLE runs ADD COLUMN api_key_id TEXT;

-- Every call of a model, once, with whose it was at that time: what is used and charged is the sum of these. Rows stay when a
-- run or its project is removed. An unknown cost is NULL.
CREATE TABLE model_calls (
  run_id              TEXT NOT NULL,
  call_id             TEXT NOT NULL,
  organization_id     TEXT NOT NULL,
  project_id          TEXT NOT NULL,
  workspace_id        TEXT NOT NULL,
  session_id          TEXT NOT NULL,
  agent_id            TEXT,
  api_key_id          TEXT,
  harness             TEXT NOT NULL,
  billing_mode        TEXT NOT NULL,
  at                  TEXT NOT NULL,
  provider            TEXT,
  model               TEXT,
  dialect             TEXT,
  status              TEXT NOT NULL,
  http_status         INTEGER,
  main                INTEGER NOT NULL,
  duration_ms         INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cached_input_tokens INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  reasoning_tokens    INTEGER NOT NULL,
  cost_micro_usd      INTEGER,
  cost_source         TEXT NOT NULL,
  PRIMARY KEY (run_id, call_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_calls_by_time ON model_calls (organization_id, at);
CREATE INDEX model_calls_of_project ON model_calls (project_id, at);
