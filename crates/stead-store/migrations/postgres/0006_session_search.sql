-- The terms by which sessions are found: owner, metadata, and words. Derived from the journal (journal/search.rs).
CREATE TABLE session_terms (
    -- Prefixes are ranges of bytes, whatever the collation of the database.
    term    TEXT COLLATE "C" NOT NULL,
    session TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (term, session)
);
CREATE INDEX session_terms_session ON session_terms (session, term);
CREATE INDEX sessions_status ON sessions (status, id);
CREATE INDEX sessions_agent_type ON sessions (agent_type, id);
CREATE INDEX sessions_project ON sessions (project, id) WHERE project IS NOT NULL;

-- The project that a record is about. Derived: the project of its session, or the one that its body names.
ALTER TABLE audit ADD COLUMN project TEXT;
UPDATE audit SET project = (SELECT s.project FROM sessions s WHERE s.id = audit.session) WHERE session IS NOT NULL;
CREATE INDEX audit_project ON audit (project, id) WHERE project IS NOT NULL;
CREATE INDEX audit_actor ON audit (actor, id);
CREATE INDEX audit_at ON audit (at, id);
