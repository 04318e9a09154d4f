-- The same tables as SQLite's. Keys sort by their bytes (COLLATE "C"), as they do there, whatever the locale of the cluster.
-- One row per session: the projection of its state, written with its events in one transaction.
CREATE TABLE sessions (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    seq        BIGINT NOT NULL,
    head_hash  BYTEA  NOT NULL,
    status     TEXT   NOT NULL,
    live       BIGINT NOT NULL CHECK (live IN (0, 1)),
    agent_type TEXT   NOT NULL,
    project    TEXT,
    due_at     BIGINT,
    -- The hash of the state the session ended in; NULL while it lives.
    final_hash TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX sessions_live ON sessions (id) WHERE live = 1;
CREATE INDEX sessions_due ON sessions (due_at, id) WHERE live = 1 AND due_at IS NOT NULL;

CREATE TABLE events (
    session   TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    seq       BIGINT NOT NULL CHECK (seq >= 1),
    at        BIGINT NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    payload   TEXT   NOT NULL,
    prev_hash BYTEA  NOT NULL,
    hash      BYTEA  NOT NULL,
    PRIMARY KEY (session, seq)
);

-- Ids are handed out before COMMIT, so under concurrency a lower id may appear after a higher one.
CREATE TABLE audit (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      BIGINT NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    actor   TEXT   NOT NULL,
    session TEXT,
    body    TEXT   NOT NULL
);
CREATE INDEX audit_session ON audit (session, id) WHERE session IS NOT NULL;
CREATE INDEX audit_kind ON audit (kind, id);

CREATE TABLE idempotency (
    scope     TEXT COLLATE "C" NOT NULL,
    key       TEXT COLLATE "C" NOT NULL,
    body_hash BYTEA  NOT NULL,
    target    TEXT   NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_at ON idempotency (at);

-- A deleted document keeps its row: its revision goes on counting, so an old If-Match never matches a new document.
CREATE TABLE documents (
    kind       TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    revision   BIGINT NOT NULL,
    deleted    BIGINT NOT NULL CHECK (deleted IN (0, 1)),
    body       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE TABLE settings (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
