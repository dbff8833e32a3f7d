-- How far each live agent was heard, and what whoever hears it needs to go on from there. It is
-- written again with most commits and may be long, which a table without row ids would make costly.
CREATE TABLE bookmarks (
    agent TEXT PRIMARY KEY,
    run INTEGER NOT NULL,
    heard INTEGER NOT NULL,
    kept TEXT NOT NULL
) STRICT;
