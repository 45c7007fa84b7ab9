-- What a run may reach from its sandbox. Runs of before had none.
ALTER TABLE runs ADD COLUMN network TEXT NOT NULL DEFAULT '"allow"';
