-- Under one key of its asker something is asked once, and people may be asked although an
-- orchestrator was first.
ALTER TABLE questions ADD COLUMN asker TEXT;
ALTER TABLE questions ADD COLUMN key TEXT;
ALTER TABLE questions ADD COLUMN escalated INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX questions_keyed ON questions (asker, key) WHERE key IS NOT NULL;
