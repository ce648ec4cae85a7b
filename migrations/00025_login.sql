-- +goose Up
CREATE TABLE actlog.login (
    session_sha256 bytea PRIMARY KEY,
    key_sha256     bytea NOT NULL,
    expires_at     timestamptz NOT NULL
);
COMMENT ON TABLE actlog.login IS 'Who is logged in to the web page. The browser has the secret of the session.';
COMMENT ON COLUMN actlog.login.session_sha256 IS 'SHA-256 of the secret.';
COMMENT ON COLUMN actlog.login.key_sha256 IS 'The beginning of the SHA-256 of the API key with which the session was begun. The session ends with the key.';
COMMENT ON COLUMN actlog.login.expires_at IS 'When the session ends.';

-- +goose Down
DROP TABLE actlog.login;
