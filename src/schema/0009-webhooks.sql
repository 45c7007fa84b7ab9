-- What others may want to be told of, in the order of its commits, until it has been read. A run's own events are copied here when
-- they are appended, so that trimming a history takes nothing away from whoever has not read yet.
CREATE TABLE announcements (
  key             INTEGER PRIMARY KEY AUTOINCREMENT,
  organization_id TEXT,
  run_id          TEXT,
  type            TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  data            TEXT NOT NULL
) STRICT;

CREATE TABLE webhooks (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  url             TEXT NOT NULL,
  description     TEXT,
  event_types     TEXT NOT NULL,
  status          TEXT NOT NULL,
  disabled_reason TEXT,
  -- Not on the wire: whether the local session named the address, and since when every attempt has failed.
  loopback        INTEGER NOT NULL,
  failing_since   TEXT,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX webhooks_of_organization ON webhooks (organization_id, key);

CREATE TABLE webhook_secrets (
  key        INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  sealed     TEXT NOT NULL,
  last4      TEXT NOT NULL,
  expires_at TEXT,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_secrets_of_webhook ON webhook_secrets (webhook_id, key);

-- The business events: one row however many are told of it, and its body as it is sent.
CREATE TABLE webhook_events (
  key        INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  body       TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE webhook_deliveries (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  endpoint_id     TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  event_id        TEXT NOT NULL REFERENCES webhook_events (id),
  event_type      TEXT NOT NULL,
  status          TEXT NOT NULL,
  attempt_count   INTEGER NOT NULL,
  attempts        TEXT NOT NULL,
  next_attempt_at TEXT,
  replay_of       TEXT,
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_deliveries_of_organization ON webhook_deliveries (organization_id, key);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, key);
CREATE INDEX webhook_deliveries_of_event ON webhook_deliveries (event_id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);

-- To whom a run is told of; null: to every endpoint that subscribes.
ALTER TABLE runs ADD COLUMN webhook_endpoint_ids TEXT;
