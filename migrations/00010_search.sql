-- The index of the search over runs. docs/design.md explains how it is built.

-- +goose Up

CREATE TABLE actlog.search_fresh (
    root_plan_id  text COLLATE "C" NOT NULL,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    said_at       timestamptz NOT NULL DEFAULT now(),
    text          text COLLATE "C" NOT NULL,
    PRIMARY KEY (root_plan_id, id)
);
COMMENT ON TABLE actlog.search_fresh IS 'Texts that were written to a tree and are not in the index yet. A search reads all of them.';
COMMENT ON COLUMN actlog.search_fresh.id IS 'Grows with each row.';
COMMENT ON COLUMN actlog.search_fresh.said_at IS 'When the transaction that wrote them began. If the root plan was first seen then, the fresh texts have all that the tree has.';
COMMENT ON COLUMN actlog.search_fresh.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.search_fresh.text IS 'The texts, one per line, in lower case.';

CREATE TABLE actlog.search_text (
    root_plan_id  text COLLATE "C" NOT NULL PRIMARY KEY,
    text          text COLLATE "C" NOT NULL
);
COMMENT ON TABLE actlog.search_text IS 'The searchable texts of each tree, as far as they are in the index. What the index finds is checked with them.';
COMMENT ON COLUMN actlog.search_text.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.search_text.text IS 'The texts, one per line, in lower case. A text that was replaced stays.';

CREATE TABLE actlog.search_slice (
    slice      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    newest_at  timestamptz NOT NULL,
    newest_id  text COLLATE "C" NOT NULL,
    oldest_at  timestamptz NOT NULL,
    oldest_id  text COLLATE "C" NOT NULL
);
CREATE INDEX search_slice_newest ON actlog.search_slice (newest_at DESC, newest_id DESC, slice DESC);
COMMENT ON TABLE actlog.search_slice IS 'A slice of the index: up to 4,096 trees that were indexed together. It never changes. A tree that receives more texts is added to a later slice as well.';
COMMENT ON COLUMN actlog.search_slice.slice IS 'Number of the slice.';
COMMENT ON COLUMN actlog.search_slice.newest_at IS 'When its newest root plan was first seen.';
COMMENT ON COLUMN actlog.search_slice.newest_id IS 'Its newest root plan.';
COMMENT ON COLUMN actlog.search_slice.oldest_at IS 'When its oldest root plan was first seen.';
COMMENT ON COLUMN actlog.search_slice.oldest_id IS 'Its oldest root plan.';

CREATE TABLE actlog.search_member (
    slice          integer NOT NULL,
    position       integer NOT NULL,
    first_seen_at  timestamptz NOT NULL,
    root_plan_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (slice, position)
);
COMMENT ON TABLE actlog.search_member IS 'The trees of each slice.';
COMMENT ON COLUMN actlog.search_member.slice IS 'The slice.';
COMMENT ON COLUMN actlog.search_member.position IS 'Place of the tree in the slice, from 0, newest first.';
COMMENT ON COLUMN actlog.search_member.first_seen_at IS 'When the root plan was first seen.';
COMMENT ON COLUMN actlog.search_member.root_plan_id IS 'The root plan of the tree.';

CREATE TABLE actlog.search_gram (
    slice  integer NOT NULL,
    gram   bigint NOT NULL,
    trees  bit varying NOT NULL,
    PRIMARY KEY (slice, gram)
);
COMMENT ON TABLE actlog.search_gram IS 'Which trees of a slice have a sequence of one to three characters in their texts.';
COMMENT ON COLUMN actlog.search_gram.slice IS 'The slice.';
COMMENT ON COLUMN actlog.search_gram.gram IS 'The characters: 21 bits for each code point.';
COMMENT ON COLUMN actlog.search_gram.trees IS 'A bit for each position in the slice; zeros at the end are left out.';

CREATE TABLE actlog.search_deletion (
    id         smallint NOT NULL PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    deletions  bigint NOT NULL
);
COMMENT ON TABLE actlog.search_deletion IS 'Writers remember which texts a tree has. They look here whether trees were deleted since.';
COMMENT ON COLUMN actlog.search_deletion.id IS 'There is one row, or none before the first deletion.';
COMMENT ON COLUMN actlog.search_deletion.deletions IS 'How many transactions have deleted trees.';

CREATE TABLE actlog.search_backfill (
    since  timestamptz NOT NULL PRIMARY KEY DEFAULT now()
);
COMMENT ON TABLE actlog.search_backfill IS 'Has a row until the runs that were on record before the search was added are in its index.';
COMMENT ON COLUMN actlog.search_backfill.since IS 'When the search was added.';
INSERT INTO actlog.search_backfill
SELECT now() WHERE EXISTS (SELECT FROM actlog.plan_execution_record);

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.search_fresh,actlog.search_text,actlog.search_slice,actlog.search_member}'::text[]) AS t;

-- +goose Down

-- The upkeep that fills the index uses these tables in another order. It leaves them alone while
-- this lock is held; without it, both would wait for each other.
SELECT pg_advisory_xact_lock(hashtext('actlog.search'));
DROP TABLE actlog.search_backfill;
DROP TABLE actlog.search_deletion;
DROP TABLE actlog.search_gram;
DROP TABLE actlog.search_member;
DROP TABLE actlog.search_slice;
DROP TABLE actlog.search_text;
DROP TABLE actlog.search_fresh;
