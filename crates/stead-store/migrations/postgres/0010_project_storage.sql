-- What a project keeps outside of its sessions: uploaded blobs, images, setup results. Their bytes are part of
-- disk_bytes of the project in counters. Only a project that uploaded a blob may read it by its hash.
CREATE TABLE project_storage (
    kind    TEXT COLLATE "C" NOT NULL,
    -- Hash of a blob or of an image, id of a setup result.
    id      TEXT COLLATE "C" NOT NULL,
    project TEXT COLLATE "C" NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (kind, id, project)
);
CREATE INDEX project_storage_project ON project_storage (project);
-- The server measures the blobs when it takes the database over.
INSERT INTO project_storage (kind, id, project, bytes) SELECT 'blob', digest, project, 0 FROM blob_uploads;
DROP TABLE blob_uploads;

-- Tool calls of live sessions per day (UTC). Moved to usage_days when the session ends.
CREATE TABLE tool_calls (
    session TEXT COLLATE "C" NOT NULL,
    -- Days since 1970-01-01.
    day     BIGINT NOT NULL,
    calls   BIGINT NOT NULL,
    PRIMARY KEY (session, day)
);
ALTER TABLE usage_days ADD COLUMN tool_calls BIGINT NOT NULL DEFAULT 0;
