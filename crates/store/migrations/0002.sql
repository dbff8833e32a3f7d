-- Remembered decisions, each with what became of it so far.
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    uses_left INTEGER,
    fired INTEGER NOT NULL,
    last_used INTEGER
) STRICT, WITHOUT ROWID;

-- Rule files somebody trusted, each with the digest of the content that was trusted last.
CREATE TABLE trusted (
    file TEXT PRIMARY KEY,
    digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Until when an agent's asks are let through without a person.
ALTER TABLE agents ADD COLUMN bypass_until INTEGER;
