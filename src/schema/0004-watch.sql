-- What a workspace's tree looked like when it was last looked at; null when something of ours has changed it since.
ALTER TABLE workspaces ADD COLUMN signature TEXT;
