-- Lists of the runs of one user, project, tag or agent. Nothing here changes after the first write of a row, so updates
-- stay heap-only.

-- +goose NO TRANSACTION
-- +goose Up

-- An index that was not finished is of no use. The migration may have been tried before.
-- +goose StatementBegin
DO $$
DECLARE
    unfinished regclass;
BEGIN
    FOR unfinished IN SELECT indexrelid FROM pg_index WHERE NOT indisvalid AND indexrelid IN (to_regclass('actlog.plan_root_user'),
        to_regclass('actlog.plan_root_project'), to_regclass('actlog.plan_tags'), to_regclass('actlog.agent_name'))
    LOOP
        EXECUTE format('DROP INDEX %s', unfinished);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- In the order of the list, so that a page reads its own runs only.
CREATE INDEX CONCURRENTLY IF NOT EXISTS plan_root_user ON actlog.plan_execution_record (user_id, (COALESCE(start_time, first_seen_at)), root_plan_id)
    WHERE root_plan_id = current_plan_id AND user_id IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS plan_root_project ON actlog.plan_execution_record ((COALESCE(project, 'default')), (COALESCE(start_time, first_seen_at)), root_plan_id)
    WHERE root_plan_id = current_plan_id;
-- For tags that few runs have. A list of a tag that many have finds them by when they began. Without fastupdate, no list
-- reads what is still to be put into the index.
CREATE INDEX CONCURRENTLY IF NOT EXISTS plan_tags ON actlog.plan_execution_record USING gin (tags) WITH (fastupdate = off)
    WHERE root_plan_id = current_plan_id AND tags IS NOT NULL;
-- For agents that few runs have.
CREATE INDEX CONCURRENTLY IF NOT EXISTS agent_name ON actlog.agent_execution_record ((agent_name COLLATE "C"), root_plan_id) WHERE agent_name IS NOT NULL;

-- +goose Down

DROP INDEX actlog.agent_name, actlog.plan_tags, actlog.plan_root_project, actlog.plan_root_user;
