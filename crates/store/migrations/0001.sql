-- The record. Kinds, streams and agents are numbered in `words`, so that a header is small.
CREATE TABLE words (
    code INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    agent INTEGER,
    digest BLOB NOT NULL,
    hash BLOB NOT NULL
) STRICT;

CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    salt BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- Which stretch of the log mentions which kind or agent: one row per stretch instead of one
-- index entry per event.
CREATE TABLE mentions (
    word INTEGER NOT NULL,
    stretch INTEGER NOT NULL,
    PRIMARY KEY (word, stretch)
) STRICT, WITHOUT ROWID;

-- stream, head, ids_until, pruned_seq, pruned_hash.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Read models. What was asked and how it ended lies in the payloads, so that erasing those is enough.
CREATE TABLE approvals (
    opened INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    agent INTEGER,
    asker TEXT,
    key TEXT,
    client TEXT,
    lapses_at INTEGER,
    ended INTEGER,
    delivery INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    dismissed INTEGER NOT NULL
) STRICT;

-- Open ones first, then by their end.
CREATE INDEX approvals_listed ON approvals (ended) WHERE ended IS NULL OR dismissed = 0;
-- Those whose asker was being told: few at any time. The number is that of `rows::delivery_code`.
CREATE INDEX approvals_attempted ON approvals (opened) WHERE delivery = 1;
CREATE UNIQUE INDEX approvals_keyed ON approvals (asker, key) WHERE key IS NOT NULL;

-- Ids of approvals up to `ids_until`; newer ones are not in it yet.
CREATE TABLE approval_ids (
    name TEXT NOT NULL,
    opened INTEGER NOT NULL,
    PRIMARY KEY (name, opened)
) STRICT, WITHOUT ROWID;

CREATE TABLE questions (
    opened INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent INTEGER,
    ended INTEGER
) STRICT;

CREATE INDEX questions_open ON questions (ended) WHERE ended IS NULL;

CREATE TABLE agents (
    id TEXT NOT NULL UNIQUE,
    profile TEXT NOT NULL,
    base TEXT NOT NULL,
    current_task TEXT,
    owner TEXT NOT NULL,
    client TEXT,
    lapses_at INTEGER,
    registered_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE devices (
    id TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE tokens (
    id TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;

CREATE TABLE marks (
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    agent TEXT NOT NULL,
    PRIMARY KEY (pid, start_time)
) STRICT, WITHOUT ROWID;
