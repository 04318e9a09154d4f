-- Whether the session has a workspace, or will have: only these count against the capacity for boxes.
ALTER TABLE sessions ADD COLUMN holds_workspace BIGINT NOT NULL DEFAULT 1 CHECK (holds_workspace IN (0, 1));
