-- Which blobs must be kept, and for whom. `holder` is `session:ID`, `document:KIND/ID` or `content:NAME`.
-- A blob without a row is garbage once it is older than the grace period.
CREATE TABLE blob_references (
    holder TEXT   NOT NULL,
    digest TEXT   NOT NULL,
    bytes  BIGINT NOT NULL,
    PRIMARY KEY (holder, digest)
);
CREATE INDEX blob_references_digest ON blob_references (digest);
