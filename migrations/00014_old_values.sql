-- +goose NO TRANSACTION
-- Values that earlier versions accepted and this one refuses: records with them could not be
-- imported from their own export. Each table is read once, in a transaction of its own, and only the
-- rows that need it are written and locked.

-- +goose Up

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.accepted(t timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN t >= '1970-01-01 00:00:00+00' AND t < '2263-01-01 00:00:00+00' THEN t END
$$;
-- +goose StatementEnd

UPDATE actlog.act_tool_info
SET start_time = actlog.accepted(start_time), end_time = actlog.accepted(end_time)
WHERE (start_time, end_time) IS DISTINCT FROM (actlog.accepted(start_time), actlog.accepted(end_time));

UPDATE actlog.think_act_record
SET think_start_time = actlog.accepted(think_start_time), think_end_time = actlog.accepted(think_end_time),
    first_token_time = actlog.accepted(first_token_time),
    act_start_time = actlog.accepted(act_start_time), act_end_time = actlog.accepted(act_end_time)
WHERE (think_start_time, think_end_time, first_token_time, act_start_time, act_end_time) IS DISTINCT FROM (
    actlog.accepted(think_start_time), actlog.accepted(think_end_time), actlog.accepted(first_token_time),
    actlog.accepted(act_start_time), actlog.accepted(act_end_time));

UPDATE actlog.agent_execution_record
SET start_time = actlog.accepted(start_time), end_time = actlog.accepted(end_time), last_seen_at = actlog.accepted(last_seen_at)
WHERE (start_time, end_time, last_seen_at) IS DISTINCT FROM (actlog.accepted(start_time), actlog.accepted(end_time), actlog.accepted(last_seen_at));

UPDATE actlog.wait_state
SET start_time = actlog.accepted(start_time), end_time = actlog.accepted(end_time), expires_at = actlog.accepted(expires_at)
WHERE (start_time, end_time, expires_at) IS DISTINCT FROM (actlog.accepted(start_time), actlog.accepted(end_time), actlog.accepted(expires_at));

UPDATE actlog.thought
SET time = actlog.accepted(time), confidence = LEAST(1, GREATEST(0, confidence))
WHERE time IS DISTINCT FROM actlog.accepted(time) OR confidence NOT BETWEEN 0 AND 1;

UPDATE actlog.source_reference
SET relevance_score = LEAST(1, GREATEST(0, relevance_score))
WHERE relevance_score NOT BETWEEN 0 AND 1;

UPDATE actlog.plan_execution_record
SET start_time = actlog.accepted(start_time), end_time = actlog.accepted(end_time), last_seen_at = actlog.accepted(last_seen_at)
WHERE (start_time, end_time, last_seen_at) IS DISTINCT FROM (actlog.accepted(start_time), actlog.accepted(end_time), actlog.accepted(last_seen_at));

-- Trace ids in upper case, or with the dashes of a UUID, are still accepted.
UPDATE actlog.plan_execution_record
SET trace_id = NULL
WHERE trace_id !~* '^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$' OR trace_id ~ '^[0-]+$';

DROP FUNCTION actlog.accepted(timestamptz);

-- +goose Down

-- What was refused does not come back.
SELECT 1;
