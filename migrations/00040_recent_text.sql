-- The texts of the runs of the present period, for the search in texts. docs/design.md explains how.

-- +goose Up

CREATE TABLE actlog.recent_text (
    root_plan_id  text COLLATE "C" PRIMARY KEY,
    part          date NOT NULL,
    began_at      timestamptz NOT NULL,
    touched_at    timestamptz NOT NULL,
    passed        boolean NOT NULL,
    ended         boolean NOT NULL DEFAULT false,
    fold          text COLLATE "C",
    slice         integer,
    position      integer
);
ALTER TABLE actlog.recent_text ALTER COLUMN fold SET STORAGE MAIN; -- each look at a toast table would cost as much as the comparison
CREATE INDEX recent_text_part ON actlog.recent_text (part);
CREATE INDEX recent_text_open ON actlog.recent_text (root_plan_id) WHERE fold IS NULL;
CREATE INDEX recent_text_loose ON actlog.recent_text (root_plan_id) WHERE fold IS NOT NULL AND slice IS NULL;
CREATE UNIQUE INDEX recent_text_place ON actlog.recent_text (slice, position) WHERE slice IS NOT NULL;
COMMENT ON TABLE actlog.recent_text IS 'What the runs say whose period has no index of texts yet. The server makes the rows again seconds after each change, and deletes them when the period has its index.';
COMMENT ON COLUMN actlog.recent_text.root_plan_id IS 'The root plan of the run.';
COMMENT ON COLUMN actlog.recent_text.part IS 'The part of its detail.';
COMMENT ON COLUMN actlog.recent_text.began_at IS 'When the run began.';
COMMENT ON COLUMN actlog.recent_text.touched_at IS 'When a change of the run was last seen.';
COMMENT ON COLUMN actlog.recent_text.passed IS 'It has no fold until it changes: its texts are too large.';
COMMENT ON COLUMN actlog.recent_text.ended IS 'The run had ended when its fold was made.';
COMMENT ON COLUMN actlog.recent_text.fold IS 'The words of all texts of the run, each once, as actlog.search_fold makes them. Null: the run goes on, or was passed. Searches read its rows.';
COMMENT ON COLUMN actlog.recent_text.slice IS 'The slice of the index that has its words; null: none has them yet.';
COMMENT ON COLUMN actlog.recent_text.position IS 'Its place in the slice, from 0. No other run had or gets it.';

CREATE TABLE actlog.recent_slice (
    slice  integer PRIMARY KEY
);
COMMENT ON TABLE actlog.recent_slice IS 'The slices of the index of actlog.recent_text. One without runs is deleted, with what it has in actlog.recent_gram.';
COMMENT ON COLUMN actlog.recent_slice.slice IS 'The slice.';

CREATE TABLE actlog.recent_gram (
    slice  integer NOT NULL,
    gram   integer NOT NULL,
    runs   bytea NOT NULL,
    PRIMARY KEY (slice, gram)
);
ALTER TABLE actlog.recent_gram ALTER COLUMN runs SET STORAGE PLAIN;
COMMENT ON TABLE actlog.recent_gram IS 'The index of actlog.recent_text: which runs of a slice have three characters of a word in a row.';
COMMENT ON COLUMN actlog.recent_gram.slice IS 'The slice.';
COMMENT ON COLUMN actlog.recent_gram.gram IS 'The three characters, as a number.';
COMMENT ON COLUMN actlog.recent_gram.runs IS 'The positions of the runs that have them, and perhaps of some that were there: two bytes for each, or one bit for each position if that is shorter.';

CREATE TABLE actlog.recent_progress (
    id         smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    version    integer NOT NULL,
    seq        bigint,
    from_day   date NOT NULL,
    before_at  timestamptz,
    before_id  text COLLATE "C",
    older_at   timestamptz,
    slices     integer NOT NULL
);
COMMENT ON TABLE actlog.recent_progress IS 'How far actlog.recent_text is made.';
COMMENT ON COLUMN actlog.recent_progress.id IS 'There is one row.';
COMMENT ON COLUMN actlog.recent_progress.version IS 'Which release made the rows: a search of another does not use them.';
COMMENT ON COLUMN actlog.recent_progress.seq IS 'What the change feed has up to this number is in actlog.recent_text. Null: nothing is, and rows there are left over.';
COMMENT ON COLUMN actlog.recent_progress.from_day IS 'Runs whose part is before this have no rows.';
COMMENT ON COLUMN actlog.recent_progress.before_at IS 'Runs that began before this are still to be looked at; null: all are in.';
COMMENT ON COLUMN actlog.recent_progress.before_id IS 'Of those that began then, the ones with ids below this.';
COMMENT ON COLUMN actlog.recent_progress.older_at IS 'No run whose part is before from_day began after this, but for those that the feed names behind seq. Null: there is none.';
COMMENT ON COLUMN actlog.recent_progress.slices IS 'The newest slice.';
INSERT INTO actlog.recent_progress (version, from_day, slices) VALUES (0, '0001-01-01', 0);
SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.recent_text,actlog.recent_progress}'::text[]) AS t;

-- +goose Down

DROP TABLE actlog.recent_progress, actlog.recent_gram, actlog.recent_slice, actlog.recent_text;
