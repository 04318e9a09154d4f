-- One row per live session: what it reserves while it lives. Written with the session's row.
-- A server that takes the database over adds the rows of live sessions that have none.
CREATE TABLE reservations (
    session      TEXT NOT NULL PRIMARY KEY,
    project      TEXT,
    -- The user whose quota the session counts against.
    owner        TEXT,
    agent_type   TEXT   NOT NULL,
    boxes        BIGINT NOT NULL,
    cpu_millis   BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    disk_bytes   BIGINT NOT NULL,
    -- 1 unless the workspace is in the server's own memory.
    on_host      BIGINT NOT NULL CHECK (on_host IN (0, 1))
);

-- The sums of the reservations per scope: platform, host, project/NAME, user/PROJECT/NAME, type/PROJECT/NAME.
-- Every change of a sum begins with the row 'platform', which is the lock of all rows.
CREATE TABLE counters (
    scope        TEXT NOT NULL PRIMARY KEY,
    sessions     BIGINT NOT NULL,
    boxes        BIGINT NOT NULL,
    cpu_millis   BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    disk_bytes   BIGINT NOT NULL
);
INSERT INTO counters (scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes) VALUES ('platform', 0, 0, 0, 0, 0);
