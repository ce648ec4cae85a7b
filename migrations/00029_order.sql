-- The list of runs, and what a search finds, are ordered by when runs began, as the reports count.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- Else the upkeep that fills the index of the search, and this, would wait for each other.
SELECT pg_advisory_xact_lock(hashtext('actlog.search'));

-- Runs in the order of the list. A scan of it, beside search_text_pkey, finds those that the index of the search does not know.
DROP INDEX actlog.plan_root_began;
CREATE INDEX plan_root_began ON actlog.plan_execution_record ((COALESCE(start_time, first_seen_at)), root_plan_id)
    INCLUDE (start_time, first_seen_at) WHERE root_plan_id = current_plan_id;
-- Reports of root plans with a range of part read these only.
CREATE INDEX plan_root_part ON actlog.plan_execution_record (part, root_plan_id) WHERE root_plan_id = current_plan_id;

-- Slices are in another order now. Their texts stay, also those of detail that was dropped.
TRUNCATE actlog.search_gram, actlog.search_member, actlog.search_slice;
ALTER TABLE actlog.search_member RENAME COLUMN first_seen_at TO began_at;
ALTER TABLE actlog.search_text ADD COLUMN began_at timestamptz;
ALTER TABLE actlog.search_text DROP CONSTRAINT search_text_pkey, ADD PRIMARY KEY (root_plan_id) INCLUDE (began_at);
INSERT INTO actlog.search_backfill
SELECT now() WHERE EXISTS (SELECT FROM actlog.search_text) AND NOT EXISTS (SELECT FROM actlog.search_backfill);

COMMENT ON COLUMN actlog.search_text.began_at IS 'When the root plan began, or was first seen if that was not told, as its latest slice knows it; null: it is in none. If it is another time now, the tree is added to a later slice.';
COMMENT ON COLUMN actlog.search_member.began_at IS 'When the root plan began, or was first seen if that was not told, as far as was known then.';
COMMENT ON COLUMN actlog.search_slice.newest_at IS 'When its newest root plan began.';
COMMENT ON COLUMN actlog.search_slice.oldest_at IS 'When its oldest root plan began.';

-- +goose Down

SELECT pg_advisory_xact_lock(hashtext('actlog.search'));
COMMENT ON COLUMN actlog.search_slice.newest_at IS 'When its newest root plan was first seen.';
COMMENT ON COLUMN actlog.search_slice.oldest_at IS 'When its oldest root plan was first seen.';
TRUNCATE actlog.search_gram, actlog.search_member, actlog.search_slice;
ALTER TABLE actlog.search_member RENAME COLUMN began_at TO first_seen_at;
COMMENT ON COLUMN actlog.search_member.first_seen_at IS 'When the root plan was first seen.';
INSERT INTO actlog.search_fresh (root_plan_id, text) SELECT root_plan_id, text FROM actlog.search_text; -- to be indexed again
TRUNCATE actlog.search_text;
ALTER TABLE actlog.search_text DROP CONSTRAINT search_text_pkey, DROP COLUMN began_at, ADD PRIMARY KEY (root_plan_id);
DROP INDEX actlog.plan_root_part;
DROP INDEX actlog.plan_root_began;
CREATE INDEX plan_root_began ON actlog.plan_execution_record ((COALESCE(start_time, first_seen_at))) WHERE root_plan_id = current_plan_id;
