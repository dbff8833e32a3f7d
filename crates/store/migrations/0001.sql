-- The record. Kinds, streams and agents are interned in `strings`, so that an event's header is small.
CREATE TABLE strings (
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

-- In which segments of the log a kind or an agent occurs: one row per segment instead of one
-- index entry per event.
CREATE TABLE string_segments (
    string INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    PRIMARY KEY (string, segment)
) STRICT, WITHOUT ROWID;

-- stream, head, models (the newest event that the read models count in), ids_until, pruned_seq, pruned_hash.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Read models. What was asked and how it ended is only in the payloads, so that erasing those is enough.
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
-- Those whose answer was attempted: few at any time. The number is that of `rows::delivery_code`.
CREATE INDEX approvals_attempted ON approvals (opened) WHERE delivery = 1;
CREATE UNIQUE INDEX approvals_keyed ON approvals (asker, key) WHERE key IS NOT NULL;

-- Ids of approvals up to `ids_until`; newer ones are not in it yet. Ids are random: in one sorted
-- table each new one would change a page of its own. So they are kept in runs, each sorted by itself,
-- and adding a run writes few pages however many ids there are. A run is named by the last event it covers.
CREATE TABLE id_runs (
    run INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE approval_ids (
    run INTEGER NOT NULL,
    id TEXT NOT NULL,
    opened INTEGER NOT NULL,
    PRIMARY KEY (run, id, opened)
) STRICT, WITHOUT ROWID;

CREATE TABLE questions (
    opened INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent INTEGER,
    asker TEXT,
    key TEXT,
    escalated INTEGER NOT NULL,
    ended INTEGER
) STRICT;

CREATE INDEX questions_open ON questions (ended) WHERE ended IS NULL;
CREATE UNIQUE INDEX questions_keyed ON questions (asker, key) WHERE key IS NOT NULL;

-- `managed` is what the host knows of an agent that it runs, as one document; NULL for the others.
CREATE TABLE agents (
    id TEXT NOT NULL UNIQUE,
    profile TEXT NOT NULL,
    base TEXT NOT NULL,
    current_task TEXT,
    owner TEXT NOT NULL,
    client TEXT,
    lapses_at INTEGER,
    registered_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    bypass_until INTEGER,
    managed TEXT
) STRICT;

-- How far the output of each live agent was read, and the state needed to resume from there. It is
-- written again with most commits and may be long, which a table without row ids would make costly.
CREATE TABLE checkpoints (
    agent TEXT PRIMARY KEY,
    run INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT;

-- What the notifier keeps under a name: how far each channel has read, and which browsers subscribed.
-- No text of an agent is in it, so that erasing payloads stays enough.
CREATE TABLE notify_documents (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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
    expires_at INTEGER,
    -- The browser that holds it, if it is the token of a login, and when it was last recorded as used.
    device TEXT,
    last_seen INTEGER
) STRICT;

CREATE TABLE marks (
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    agent TEXT NOT NULL,
    PRIMARY KEY (pid, start_time)
) STRICT, WITHOUT ROWID;

-- Remembered decisions, each with how often it was used.
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    uses_left INTEGER,
    fired INTEGER NOT NULL,
    last_used INTEGER
) STRICT, WITHOUT ROWID;

-- Rule files somebody trusted, each with the digest of the content that was trusted last.
CREATE TABLE trusted_files (
    path TEXT PRIMARY KEY,
    digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;
