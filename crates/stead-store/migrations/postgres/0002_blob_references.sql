-- The same table as SQLite's.
CREATE TABLE blob_references (
    holder TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    bytes  BIGINT NOT NULL,
    PRIMARY KEY (holder, digest)
);
CREATE INDEX blob_references_digest ON blob_references (digest);
