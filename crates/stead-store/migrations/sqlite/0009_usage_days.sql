-- The time from which a reservation is not yet in usage_days. Sessions that live now count from now on.
ALTER TABLE reservations ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
UPDATE reservations SET since = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);

-- What sessions used per day (UTC): reserved amounts times milliseconds. Written with the change of a reservation.
-- An empty text stands for no project and no user. A large sum is high * 2^40 + low, with low < 2^40.
CREATE TABLE usage_days (
    -- Days since 1970-01-01.
    day              BIGINT NOT NULL,
    project          TEXT   NOT NULL,
    owner            TEXT   NOT NULL,
    agent_type       TEXT   NOT NULL,
    sessions_created BIGINT NOT NULL,
    session_ms       BIGINT NOT NULL,
    box_ms           BIGINT NOT NULL,
    cpu_high         BIGINT NOT NULL,
    cpu_low          BIGINT NOT NULL,
    memory_high      BIGINT NOT NULL,
    memory_low       BIGINT NOT NULL,
    disk_high        BIGINT NOT NULL,
    disk_low         BIGINT NOT NULL,
    PRIMARY KEY (day, project, owner, agent_type)
);
