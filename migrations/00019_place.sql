-- Limits of how many runs go on at once, and what comes first. A root run takes a place of its agent, its project and its
-- owner while it goes on, and one of its concurrency key until it ends. What finds no place waits in a list of its own, so
-- that a claim reads only what can go on.

-- +goose Up

-- A transaction that locks runs locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

ALTER TABLE actlog.run
    ADD COLUMN priority smallint NOT NULL DEFAULT 5,
    ADD COLUMN concurrency_key text COLLATE "C",
    ADD COLUMN agent text COLLATE "C",
    ADD COLUMN placed boolean NOT NULL DEFAULT false,
    ADD COLUMN keyed boolean NOT NULL DEFAULT false,
    ADD COLUMN blocked text COLLATE "C",
    ADD CONSTRAINT run_priority CHECK (priority BETWEEN 0 AND 9);

COMMENT ON COLUMN actlog.run.priority IS 'From 0 to 9. What is due and has a higher one is taken first. Runs below a run have its priority.';
COMMENT ON COLUMN actlog.run.concurrency_key IS 'Of the runs of a project with the same key only some go on at once, in the order of their start; null: none.';
COMMENT ON COLUMN actlog.run.agent IS 'The agent that it is a run of; null: it is one of several, or of none.';
COMMENT ON COLUMN actlog.run.placed IS 'Of a root run: whether its tree has a place of its agent, its project and its owner.';
COMMENT ON COLUMN actlog.run.keyed IS 'Whether it has a place of its concurrency key.';
COMMENT ON COLUMN actlog.run.blocked IS 'The place that it waits for, or last waited for before it was made due: agent:NAME, project:NAME, owner:NAME or key:LENGTH:PROJECT/KEY; null: none since it was last claimed.';

CREATE FUNCTION actlog.place_rank(place text, priority smallint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN left(place, 4) = 'key:' THEN 0 ELSE -priority END
$$;
COMMENT ON FUNCTION actlog.place_rank(text, smallint) IS 'Returns what comes first among those that wait for a place: for a key only their start counts.';

DROP INDEX actlog.run_due;
CREATE INDEX run_due ON actlog.run (priority DESC, due_at) WHERE due_at IS NOT NULL AND worker_id IS NULL AND NOT done;
-- What waits for a place, in its order.
CREATE INDEX run_blocked ON actlog.run (blocked, (actlog.place_rank(blocked, priority)), created_at, plan_id)
    WHERE blocked IS NOT NULL AND due_at IS NULL AND worker_id IS NULL AND NOT done;
CREATE INDEX run_unkeyed ON actlog.run (concurrency_key, project, created_at, plan_id) WHERE concurrency_key IS NOT NULL AND NOT keyed AND NOT done;
CREATE INDEX run_key ON actlog.run (concurrency_key, created_at, plan_id) WHERE concurrency_key IS NOT NULL;
-- What has places now.
CREATE INDEX run_placed ON actlog.run (root_plan_id) WHERE placed AND NOT done;

CREATE TABLE actlog.place (
    place  text COLLATE "C" PRIMARY KEY,
    taken  bigint NOT NULL,
    most   integer
);
COMMENT ON TABLE actlog.place IS 'How many places of agents, projects, owners and keys are taken. Only claims change it, one after the other.';
COMMENT ON COLUMN actlog.place.place IS 'agent:NAME, project:NAME, owner:NAME or key:LENGTH:PROJECT/KEY.';
COMMENT ON COLUMN actlog.place.taken IS 'How many runs had one when that was last counted.';
COMMENT ON COLUMN actlog.place.most IS 'How many there are, as the worker knew it that looked at them last; null: no limit.';

-- No writer waits for another: each adds a row, and the next claim counts them.
CREATE TABLE actlog.place_change (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    places  text[] COLLATE "C" NOT NULL,
    freed   boolean NOT NULL
);
COMMENT ON TABLE actlog.place_change IS 'What happened to places since the last claim.';
COMMENT ON COLUMN actlog.place_change.id IS 'Names the row.';
COMMENT ON COLUMN actlog.place_change.places IS 'The places.';
COMMENT ON COLUMN actlog.place_change.freed IS 'Whether a run left them; false: what waits for them may go on all the same.';

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.run,actlog.place,actlog.place_change}'::text[]) AS t;

CREATE FUNCTION actlog.places_of(agent text, project text, owner text, root_plan_id text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_remove(ARRAY[
        'agent:' || agent,
        'project:' || project,
        CASE WHEN owner <> root_plan_id THEN 'owner:' || owner END
    ], NULL)
$$;
COMMENT ON FUNCTION actlog.places_of(text, text, text, text) IS
    'Returns the places that a root run has while it goes on. One that runs for nobody has no owner but itself.';

CREATE FUNCTION actlog.place_of_key(project text, concurrency_key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'key:' || length(project) || ':' || project || '/' || concurrency_key
$$;
COMMENT ON FUNCTION actlog.place_of_key(text, text) IS 'Returns the place that a run with a concurrency key has until it ends. The length of the project says where its name ends.';

-- Whoever ends a run, pauses or deletes it, its places are free.
-- +goose StatementBegin
CREATE FUNCTION actlog.leave_places() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_left  boolean := TG_OP = 'DELETE';
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.done THEN
        NEW.placed := false;
        NEW.keyed := false;
        NEW.blocked := NULL;
        is_left := true;
    END IF;

    IF OLD.placed AND (is_left OR NOT NEW.placed) THEN
        INSERT INTO actlog.place_change (places, freed)
        VALUES (actlog.places_of(OLD.agent, OLD.project, OLD.owner, OLD.root_plan_id), true);
    END IF;
    IF OLD.concurrency_key IS NOT NULL AND (is_left OR NEW.desired <> OLD.desired) THEN
        INSERT INTO actlog.place_change (places, freed)
        VALUES (ARRAY[actlog.place_of_key(OLD.project, OLD.concurrency_key)], OLD.keyed AND is_left);
    END IF;
    IF OLD.blocked IS NOT NULL AND (is_left OR NEW.blocked IS DISTINCT FROM OLD.blocked) THEN
        INSERT INTO actlog.place_change (places, freed) VALUES (ARRAY[OLD.blocked], false); -- it waits no more
    END IF;

    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.leave_places() IS 'Notes which places a run left, or waits for no more. A run that has ended has none.';

CREATE TRIGGER leave_places BEFORE UPDATE OF placed, blocked, done, desired ON actlog.run FOR EACH ROW
    WHEN (NOT OLD.done AND (
        NEW.done OR OLD.placed AND NOT NEW.placed OR NEW.blocked IS DISTINCT FROM OLD.blocked
        OR OLD.concurrency_key IS NOT NULL AND NEW.desired <> OLD.desired
    ))
    EXECUTE FUNCTION actlog.leave_places();
CREATE TRIGGER leave_places_deleted BEFORE DELETE ON actlog.run FOR EACH ROW
    WHEN (NOT OLD.done AND (OLD.placed OR OLD.concurrency_key IS NOT NULL OR OLD.blocked IS NOT NULL))
    EXECUTE FUNCTION actlog.leave_places();

-- What goes on has its places.
UPDATE actlog.run SET agent = name WHERE executor = 'agent' AND NOT done;
UPDATE actlog.run AS r
SET placed = true
WHERE r.plan_id = r.root_plan_id AND NOT r.done AND EXISTS (
    SELECT FROM actlog.run AS x
    WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND (x.worker_id IS NOT NULL OR x.due_at <= now() AND x.first_claimed_at IS NOT NULL)
);
INSERT INTO actlog.place (place, taken)
SELECT p.place, count(*)
FROM actlog.run AS r
CROSS JOIN LATERAL unnest(actlog.places_of(r.agent, r.project, r.owner, r.root_plan_id)) AS p (place)
WHERE r.placed
GROUP BY p.place;

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW report.run AS '
        || regexp_replace(pg_get_viewdef('report.run'::regclass), '\n   FROM ', E',\n    x.priority,\n    x.concurrency_key\n   FROM ');
    COMMENT ON COLUMN report.run.priority IS 'From 0 to 9. What is due and has a higher one is taken first.';
    COMMENT ON COLUMN report.run.concurrency_key IS 'Of the runs of a project with the same key only some go on at once; null: none. Indexed.';
END
$$;
-- +goose StatementEnd

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

-- A view cannot lose columns: it is made again, with its comments.
-- +goose StatementBegin
DO $$
DECLARE
    body      text := regexp_replace(pg_get_viewdef('report.run'::regclass), ',\s+x\.priority,\s+x\.concurrency_key', '');
    comments  text;
BEGIN
    SELECT string_agg(format('COMMENT ON COLUMN report.run.%I IS %L', a.attname, d.description), '; ')
        || format('; COMMENT ON VIEW report.run IS %L', obj_description('report.run'::regclass, 'pg_class')) INTO comments
    FROM pg_attribute AS a
    JOIN pg_description AS d ON d.objoid = a.attrelid AND d.objsubid = a.attnum AND d.classoid = 'pg_class'::regclass
    WHERE a.attrelid = 'report.run'::regclass AND a.attname NOT IN ('priority', 'concurrency_key');

    DROP VIEW report.run;
    EXECUTE 'CREATE VIEW report.run AS ' || body;
    EXECUTE comments;
END
$$;
-- +goose StatementEnd

DROP TRIGGER leave_places ON actlog.run;
DROP TRIGGER leave_places_deleted ON actlog.run;
DROP FUNCTION actlog.leave_places();

DROP INDEX actlog.run_due;
DROP INDEX actlog.run_blocked;
UPDATE actlog.run SET due_at = now() WHERE blocked IS NOT NULL AND due_at IS NULL AND worker_id IS NULL AND NOT done;
ALTER TABLE actlog.run DROP COLUMN priority, DROP COLUMN concurrency_key, DROP COLUMN agent, DROP COLUMN placed, DROP COLUMN keyed, DROP COLUMN blocked;
CREATE INDEX run_due ON actlog.run (due_at) WHERE due_at IS NOT NULL AND worker_id IS NULL AND NOT done;

DROP FUNCTION actlog.place_rank(text, smallint);
DROP FUNCTION actlog.place_of_key(text, text);
DROP FUNCTION actlog.places_of(text, text, text, text);
DROP TABLE actlog.place_change, actlog.place;
