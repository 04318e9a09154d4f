-- One row per session: the projection of its state, written with its events in one transaction.
CREATE TABLE sessions (
    id         TEXT   NOT NULL PRIMARY KEY,
    seq        BIGINT NOT NULL,
    head_hash  BLOB   NOT NULL,
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
    session   TEXT   NOT NULL REFERENCES sessions (id),
    seq       BIGINT NOT NULL CHECK (seq >= 1),
    at        BIGINT NOT NULL,
    kind      TEXT   NOT NULL,
    payload   TEXT   NOT NULL,
    prev_hash BLOB   NOT NULL,
    hash      BLOB   NOT NULL,
    PRIMARY KEY (session, seq)
);

-- AUTOINCREMENT: an id is never given twice, so a reader that remembers the last one it saw misses nothing.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      BIGINT NOT NULL,
    kind    TEXT   NOT NULL,
    actor   TEXT   NOT NULL,
    session TEXT,
    body    TEXT   NOT NULL
);
CREATE INDEX audit_session ON audit (session, id) WHERE session IS NOT NULL;
CREATE INDEX audit_kind ON audit (kind, id);

CREATE TABLE idempotency (
    scope     TEXT   NOT NULL,
    key       TEXT   NOT NULL,
    body_hash BLOB   NOT NULL,
    target    TEXT   NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_at ON idempotency (at);

-- A deleted document keeps its row: its revision goes on counting, so an old If-Match never matches a new document.
CREATE TABLE documents (
    kind       TEXT   NOT NULL,
    id         TEXT   NOT NULL,
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
