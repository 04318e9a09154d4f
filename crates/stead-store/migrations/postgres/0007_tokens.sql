-- Time of the last request with a token, in milliseconds. Written about once a minute.
CREATE TABLE token_uses (
    token TEXT   NOT NULL PRIMARY KEY,
    at    BIGINT NOT NULL
);
-- The projects that uploaded a blob. Only they may read it by its hash.
CREATE TABLE blob_uploads (
    project TEXT NOT NULL,
    digest  TEXT NOT NULL,
    PRIMARY KEY (project, digest)
);
