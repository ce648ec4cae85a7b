-- The vectors that an embedder made of texts, so that no other worker has them made again.

-- +goose Up

CREATE TABLE actlog.text_vector (
    model     text COLLATE "C" NOT NULL,
    sha256    bytea NOT NULL,
    elements  bytea NOT NULL,
    used_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, sha256)
);
SELECT actlog.compress_texts('actlog.text_vector');
ALTER TABLE actlog.text_vector ALTER COLUMN elements SET STORAGE EXTERNAL; -- they do not become smaller
CREATE INDEX text_vector_used ON actlog.text_vector (used_at);
COMMENT ON TABLE actlog.text_vector IS 'Vectors of texts, for toolset search. Those that nobody used for 30 days are deleted.';
COMMENT ON COLUMN actlog.text_vector.model IS 'The model that made it, as its provider knows it.';
COMMENT ON COLUMN actlog.text_vector.sha256 IS 'The SHA-256 of the text. The text itself is not kept.';
COMMENT ON COLUMN actlog.text_vector.elements IS 'The elements: 4 bytes each, IEEE 754, the lowest byte first. Its length is 1.';
COMMENT ON COLUMN actlog.text_vector.used_at IS 'When it was used last, to the day.';

-- +goose Down

DROP TABLE actlog.text_vector;
