-- The words of transcripts, by the event that recorded them. No text is kept here: it is in the payloads. Words come
-- as the host splits and folds them, and the agent is one more word. `secure-delete` takes the words of an erased
-- event out of the pages of the index instead of only marking them.
CREATE VIRTUAL TABLE transcript_words USING fts5 (
    words, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);

INSERT INTO transcript_words (transcript_words, rank) VALUES ('secure-delete', 1);

-- The newest event whose words are in it.
INSERT INTO meta VALUES ('words_until', 0);
