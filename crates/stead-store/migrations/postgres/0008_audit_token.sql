-- The token that the actor of a record used. NULL for tokens without an id, and in rows of earlier versions.
ALTER TABLE audit ADD COLUMN token TEXT;
CREATE INDEX audit_token ON audit (token, id) WHERE token IS NOT NULL;
