-- One row: the server that may write. The epoch grows each time a server takes the database over.
CREATE TABLE owner (
    id       BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    epoch    BIGINT NOT NULL,
    holder   TEXT   NOT NULL,
    -- 1 after an orderly stop: the next server need not wait for the holder to come back.
    released BIGINT NOT NULL CHECK (released IN (0, 1))
);
INSERT INTO owner (id, epoch, holder, released) VALUES (1, 0, '', 1);

-- One row per changed record, written in the transaction of the change. Rows are never changed or removed.
CREATE TABLE ledger (
    seq     INTEGER PRIMARY KEY,
    kind    TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    -- A session's sequence number, an audit row's id, a document's revision.
    number  BIGINT  NOT NULL,
    -- The head of a session's journal; empty for other kinds.
    head    BLOB    NOT NULL,
    -- The hash of the whole record.
    hash    BLOB    NOT NULL
);

-- Signed heads of the ledger. Each covers the rows after the seal before it, up to `last`.
CREATE TABLE seals (
    number     BIGINT NOT NULL PRIMARY KEY,
    last       BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    hash       BLOB   NOT NULL,
    public_key BLOB   NOT NULL,
    signature  BLOB   NOT NULL
);
