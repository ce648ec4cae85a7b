-- Rows that are copies of those of another run count in no figure. The root plan of a run that goes on from another one is
-- a run of its own, so it counts. What a step sums up lacks its copies already.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- What is said once is changed where it is said: the rest of a function or a view stays as it is.
-- +goose StatementBegin
DO $do$
DECLARE
    c       record;
    before  text;
    after   text;
BEGIN
    FOR c IN
        SELECT * FROM (VALUES
            ('actlog.keep_failure()', 'IF TG_OP = ''DELETE'' OR (r.told_state',
                'IF TG_OP = ''DELETE'' OR r.forked_from IS NOT NULL AND NOT (f.kind = ''plan'' AND f.id = f.root_plan_id) OR (r.told_state'),
            ('actlog.open_days()', E'\nBEGIN\n    CASE TG_ARGV[0]',
                E'\nBEGIN\n    IF TG_ARGV[0] IN (''thinkAct'', ''actTool'') AND r.forked_from IS NOT NULL AND (TG_OP <> ''UPDATE'' OR OLD.forked_from IS NOT NULL) THEN\n'
                '        RETURN NULL; -- it counts on no day\n    END IF;\n    CASE TG_ARGV[0]'),
            ('actlog.sub_plan_figures(text)', 'count(*) AS steps', 'count(*) FILTER (WHERE a.forked_from IS NULL) AS steps'),
            ('actlog.sub_plan_figures(text)', 'WHERE w.root_plan_id = root', 'WHERE w.forked_from IS NULL AND w.root_plan_id = root'),
            ('actlog.sub_plan_figures(text)', '), sums AS MATERIALIZED (',
                E'), copied AS (\n        SELECT c.current_plan_id AS plan_id, 1 AS copies\n        FROM actlog.plan_execution_record AS c\n'
                '        WHERE c.root_plan_id = root AND c.forked_from IS NOT NULL\n    ), sums AS MATERIALIZED ('),
            ('actlog.sub_plan_figures(text)', 'COALESCE(steps, 0) AS steps,',
                E'COALESCE(copies, 0) AS copies, sum(copies) OVER (ORDER BY s.start) AS to_copies,\n            COALESCE(steps, 0) AS steps,'),
            ('actlog.sub_plan_figures(text)', 'LEFT JOIN waited USING (plan_id)', E'LEFT JOIN waited USING (plan_id)\n        LEFT JOIN copied USING (plan_id)'),
            ('actlog.sub_plan_figures(text)', '''total_plans'', s.size,', '''total_plans'', s.size - (COALESCE(e.to_copies, 0) - COALESCE(s.to_copies, 0) + s.copies),'),
            ('actlog.cause_evidence(text,date)', 'AND w.state IN (''WAITING''', 'AND w.forked_from IS NULL AND w.state IN (''WAITING'''),
            ('actlog.cause_evidence(text,date)', 'AND x.state IN (''WAITING''', 'AND x.forked_from IS NULL AND x.state IN (''WAITING'''),
            ('actlog.cause_evidence(text,date)', 'x.error_message, x.think_start_time', 'x.error_message, x.forked_from, x.think_start_time'),
            ('actlog.cause_evidence(text,date)', 'x.error_message, x.start_time', 'x.error_message, x.forked_from, x.start_time'),
            ('actlog.cause_evidence(text,date)', 'm.error_message, m.start_time', 'm.error_message, m.forked_from, m.start_time'),
            ('actlog.cause_evidence(text,date)', 'AS error_message, x.start_time', 'AS error_message, x.forked_from, x.start_time'),
            ('actlog.cause_evidence(text,date)', 'start_time AS began, start_time, end_time', 'start_time AS began, start_time, end_time, forked_from'),
            ('actlog.cause_evidence(text,date)', 'a.start_time, a.end_time', 'a.start_time, a.end_time, a.forked_from'),
            ('actlog.cause_evidence(text,date)', 'GREATEST(c.think_end_time, c.act_end_time)', 'GREATEST(c.think_end_time, c.act_end_time), c.forked_from'),
            ('actlog.cause_evidence(text,date)', 't.start_time, t.end_time', 't.start_time, t.end_time, t.forked_from'),
            ('actlog.cause_evidence(text,date)', 'NULL, start_time, end_time', 'NULL, start_time, end_time, NULL')
        ) AS v (function, counted, copied)
    LOOP
        before := pg_get_functiondef(c.function::regprocedure);
        after := replace(before, c.counted, c.copied);
        IF after = before THEN
            RAISE EXCEPTION 'function % has no %', c.function, c.counted;
        END IF;
        EXECUTE after;
    END LOOP;

    FOR c IN
        SELECT * FROM (VALUES
            ('agent_execution', ';$', ' WHERE a.forked_from IS NULL;'),
            ('think_act', ';$', ' WHERE c.forked_from IS NULL;'),
            ('tool_call', ';$', ' WHERE t.forked_from IS NULL;'),
            ('wait', ';$', ' WHERE w.forked_from IS NULL;'),
            ('thought', ';$', ' WHERE t.forked_from IS NULL;'),
            ('artifact', ';$', ' WHERE x.forked_from IS NULL;'),
            ('source', ';$', ' WHERE x.forked_from IS NULL;'),
            ('attempt', '([ac])\.attempts IS NOT NULL', '\1.forked_from IS NULL AND \1.attempts IS NOT NULL'),
            ('attempt', 't\.attempts IS NOT NULL', '(t.forked_from IS NULL OR t.current_plan_id = t.root_plan_id) AND t.attempts IS NOT NULL'),
            ('unpriced_model', '(\w+\.)?cost_usd IS NULL', '\1forked_from IS NULL AND \1cost_usd IS NULL'),
            ('usage_daily', 'c\.part <> ALL', 'c.forked_from IS NULL AND c.part <> ALL'),
            ('tool_daily', 'y\.part <> ALL', 'y.forked_from IS NULL AND y.part <> ALL'),
            ('run', '(wait_state (\w+)\s+WHERE )', '\1\2.forked_from IS NULL AND '),
            ('session', 'count\(\*\) AS steps', 'count(*) FILTER (WHERE a.forked_from IS NULL) AS steps'),
            ('running', '(wait_state (\w+)\s+WHERE )', '\1\2.forked_from IS NULL AND '),
            ('running', 'a\.step_id,', 'CASE WHEN a.forked_from IS NULL THEN a.step_id END AS step_id,'),
            ('running', 'NOT (x\w*)\.completed', '(\1.forked_from IS NULL OR \1.current_plan_id = \1.root_plan_id) AND NOT \1.completed'),
            ('plan', '(wait_state (\w+)\s+WHERE )', '\1\2.forked_from IS NULL AND '),
            ('plan', 'count\(\*\) FILTER \(WHERE \(a\.', 'count(*) FILTER (WHERE (a.forked_from IS NULL AND a.'),
            ('plan', 'count\(\*\) AS total_steps', 'count(*) FILTER (WHERE a.forked_from IS NULL) AS total_steps'),
            ('plan', '(plan_execution_record t\s+WHERE )', '\1(t.forked_from IS NULL OR t.current_plan_id = t.root_plan_id) AND '),
            ('plan', '(\w+)\.current_plan_id <> \1\.root_plan_id', '\1.forked_from IS NULL AND \1.current_plan_id <> \1.root_plan_id')
        ) AS v (view, counted, copied)
    LOOP
        before := pg_get_viewdef(format('report.%I', c.view)::regclass);
        after := regexp_replace(before, c.counted, c.copied, 'g');
        IF after = before THEN
            RAISE EXCEPTION 'view report.% has no %', c.view, c.counted;
        END IF;
        EXECUTE format('CREATE OR REPLACE VIEW report.%I AS %s', c.view, after);
    END LOOP;
END
$do$;
-- +goose StatementEnd

-- A row may be known to be a copy only after it was known to have failed.
CREATE TRIGGER failed_copied AFTER UPDATE ON actlog.plan_execution_record
    FOR EACH ROW WHEN (OLD.forked_from IS DISTINCT FROM NEW.forked_from) EXECUTE FUNCTION actlog.keep_failure('plan');
CREATE TRIGGER failed_copied AFTER UPDATE ON actlog.agent_execution_record
    FOR EACH ROW WHEN (OLD.forked_from IS DISTINCT FROM NEW.forked_from) EXECUTE FUNCTION actlog.keep_failure('agentExecution');
CREATE TRIGGER failed_copied AFTER UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (OLD.forked_from IS DISTINCT FROM NEW.forked_from) EXECUTE FUNCTION actlog.keep_failure('thinkAct');
CREATE TRIGGER failed_copied AFTER UPDATE ON actlog.act_tool_info
    FOR EACH ROW WHEN (OLD.forked_from IS DISTINCT FROM NEW.forked_from) EXECUTE FUNCTION actlog.keep_failure('actTool');

COMMENT ON TABLE actlog.failure IS 'The plans, steps, cycles and tool calls that failed or were stopped, without copies of those of another run. Triggers keep it with the rows themselves.';

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

COMMENT ON TABLE actlog.failure IS 'The plans, steps, cycles and tool calls that failed or were stopped. Triggers keep it with the rows themselves.';

DROP TRIGGER failed_copied ON actlog.plan_execution_record;
DROP TRIGGER failed_copied ON actlog.agent_execution_record;
DROP TRIGGER failed_copied ON actlog.think_act_record;
DROP TRIGGER failed_copied ON actlog.act_tool_info;

-- +goose StatementBegin
DO $do$
DECLARE
    c       record;
    before  text;
    after   text;
BEGIN
    FOR c IN
        SELECT v.view, pg_get_viewdef(format('report.%I', v.view)::regclass) AS body
        FROM unnest('{agent_execution,think_act,tool_call,wait,thought,artifact,source,attempt,unpriced_model,usage_daily,tool_daily,run,session,running,plan}'::text[]) AS v (view)
    LOOP
        after := regexp_replace(c.body, '\s+WHERE \(\w+\.forked_from IS NULL\);$', ';');
        after := regexp_replace(after, ' FILTER \(WHERE \(a\.forked_from IS NULL\)\)', '', 'g');
        after := regexp_replace(after, '\((\w+\.)?forked_from IS NULL\) AND ', '', 'g');
        after := regexp_replace(after, '\(\((\w+)\.forked_from IS NULL\) OR \(\1\.current_plan_id = \1\.root_plan_id\)\) AND ', '', 'g');
        after := regexp_replace(after, 'CASE\s+WHEN \(a\.forked_from IS NULL\) THEN a\.step_id\s+ELSE NULL::text\s+END AS step_id', 'a.step_id');
        EXECUTE format('CREATE OR REPLACE VIEW report.%I AS %s', c.view, after);
    END LOOP;

    FOR c IN
        SELECT * FROM (VALUES
            ('actlog.keep_failure()', 'IF TG_OP = ''DELETE'' OR (r.told_state',
                'IF TG_OP = ''DELETE'' OR r.forked_from IS NOT NULL AND NOT (f.kind = ''plan'' AND f.id = f.root_plan_id) OR (r.told_state'),
            ('actlog.open_days()', E'\nBEGIN\n    CASE TG_ARGV[0]',
                E'\nBEGIN\n    IF TG_ARGV[0] IN (''thinkAct'', ''actTool'') AND r.forked_from IS NOT NULL AND (TG_OP <> ''UPDATE'' OR OLD.forked_from IS NOT NULL) THEN\n'
                '        RETURN NULL; -- it counts on no day\n    END IF;\n    CASE TG_ARGV[0]'),
            ('actlog.sub_plan_figures(text)', 'count(*) AS steps', 'count(*) FILTER (WHERE a.forked_from IS NULL) AS steps'),
            ('actlog.sub_plan_figures(text)', 'WHERE w.root_plan_id = root', 'WHERE w.forked_from IS NULL AND w.root_plan_id = root'),
            ('actlog.sub_plan_figures(text)', '), sums AS MATERIALIZED (',
                E'), copied AS (\n        SELECT c.current_plan_id AS plan_id, 1 AS copies\n        FROM actlog.plan_execution_record AS c\n'
                '        WHERE c.root_plan_id = root AND c.forked_from IS NOT NULL\n    ), sums AS MATERIALIZED ('),
            ('actlog.sub_plan_figures(text)', 'COALESCE(steps, 0) AS steps,',
                E'COALESCE(copies, 0) AS copies, sum(copies) OVER (ORDER BY s.start) AS to_copies,\n            COALESCE(steps, 0) AS steps,'),
            ('actlog.sub_plan_figures(text)', 'LEFT JOIN waited USING (plan_id)', E'LEFT JOIN waited USING (plan_id)\n        LEFT JOIN copied USING (plan_id)'),
            ('actlog.sub_plan_figures(text)', '''total_plans'', s.size,', '''total_plans'', s.size - (COALESCE(e.to_copies, 0) - COALESCE(s.to_copies, 0) + s.copies),'),
            ('actlog.cause_evidence(text,date)', 'AND w.state IN (''WAITING''', 'AND w.forked_from IS NULL AND w.state IN (''WAITING'''),
            ('actlog.cause_evidence(text,date)', 'AND x.state IN (''WAITING''', 'AND x.forked_from IS NULL AND x.state IN (''WAITING'''),
            ('actlog.cause_evidence(text,date)', 'x.error_message, x.think_start_time', 'x.error_message, x.forked_from, x.think_start_time'),
            ('actlog.cause_evidence(text,date)', 'x.error_message, x.start_time', 'x.error_message, x.forked_from, x.start_time'),
            ('actlog.cause_evidence(text,date)', 'm.error_message, m.start_time', 'm.error_message, m.forked_from, m.start_time'),
            ('actlog.cause_evidence(text,date)', 'AS error_message, x.start_time', 'AS error_message, x.forked_from, x.start_time'),
            ('actlog.cause_evidence(text,date)', 'start_time AS began, start_time, end_time', 'start_time AS began, start_time, end_time, forked_from'),
            ('actlog.cause_evidence(text,date)', 'a.start_time, a.end_time', 'a.start_time, a.end_time, a.forked_from'),
            ('actlog.cause_evidence(text,date)', 'GREATEST(c.think_end_time, c.act_end_time)', 'GREATEST(c.think_end_time, c.act_end_time), c.forked_from'),
            ('actlog.cause_evidence(text,date)', 't.start_time, t.end_time', 't.start_time, t.end_time, t.forked_from'),
            ('actlog.cause_evidence(text,date)', 'NULL, start_time, end_time', 'NULL, start_time, end_time, NULL')
        ) AS v (function, counted, copied)
    LOOP
        before := pg_get_functiondef(c.function::regprocedure);
        after := replace(before, c.copied, c.counted);
        IF after = before THEN
            RAISE EXCEPTION 'function % has no %', c.function, c.copied;
        END IF;
        EXECUTE after;
    END LOOP;
END
$do$;
-- +goose StatementEnd
