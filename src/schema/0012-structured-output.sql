-- The form that a run's final answer must have, and the answer in it: {"value": …}, as the value itself may be null.
ALTER TABLE runs ADD COLUMN output_schema TEXT;
ALTER TABLE runs ADD COLUMN structured_output TEXT;
