-- Users whom an OAuth issuer names: `sub` of a token, and who issued it. The first user has neither.
ALTER TABLE users ADD COLUMN issuer TEXT;
ALTER TABLE users ADD COLUMN subject TEXT;
CREATE UNIQUE INDEX users_of_issuer ON users (issuer, subject);

-- Only the SHA-256 of a key is kept.
CREATE TABLE api_keys (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  hash            TEXT NOT NULL UNIQUE,
  name            TEXT NOT NULL,
  prefix          TEXT NOT NULL,
  last4           TEXT NOT NULL,
  scopes          TEXT NOT NULL,
  created_by      TEXT NOT NULL,
  expires_at      TEXT,
  last_used_at    TEXT,
  revoked_at      TEXT,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX api_keys_of_organization ON api_keys (organization_id, key);

-- What lets a browser in: a code for one use, then a session. Both by their SHA-256.
CREATE TABLE browser_sessions (
  hash       TEXT PRIMARY KEY,
  kind       TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A secret that an answer showed once, sealed; for as long as a repeated request may see it.
ALTER TABLE idempotency ADD COLUMN secret TEXT;
CREATE INDEX idempotency_secrets ON idempotency (created_at) WHERE secret IS NOT NULL;
