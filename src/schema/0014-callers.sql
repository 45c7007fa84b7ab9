-- Whether the user of this machine asked for a run, with the local session: others do not get out of the sandbox. Of earlier runs
-- only those of API keys are known to be of others.
ALTER TABLE runs ADD COLUMN is_local INTEGER NOT NULL DEFAULT 1;
UPDATE runs SET is_local = 0 WHERE api_key_id IS NOT NULL;
