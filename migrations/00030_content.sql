-- Long prompts are kept once: cut into pieces, which the prompts of a tree share. docs/design.md explains how.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE TABLE actlog.content (
    root_plan_id  text COLLATE "C" NOT NULL,
    part          date NOT NULL,
    hash          bytea NOT NULL,
    parts         bytea[],
    body          text COLLATE "C",
    PRIMARY KEY (root_plan_id, hash, part),
    CHECK ((parts IS NULL) <> (body IS NULL)),
    CHECK (octet_length(hash) = 16)
) PARTITION BY RANGE (part);
CREATE TABLE actlog.content_default PARTITION OF actlog.content DEFAULT;

COMMENT ON TABLE actlog.content IS 'Pieces of long texts, and lists of pieces. A tree has each of them once. Read texts by actlog.text_of, or the view actlog.think_act_text.';
COMMENT ON TABLE actlog.content_default IS 'Receives the contents of periods for which no partition was added in time.';
COMMENT ON COLUMN actlog.content.root_plan_id IS 'The tree that it belongs to.';
COMMENT ON COLUMN actlog.content.part IS 'Selects the partition; the same as on the root plan.';
COMMENT ON COLUMN actlog.content.hash IS 'Of a piece, the first 16 bytes of the SHA-256 of its UTF-8; of a list, of the byte FF and the hashes in it.';
COMMENT ON COLUMN actlog.content.parts IS 'A list: the hashes of its pieces, in their order.';
COMMENT ON COLUMN actlog.content.body IS 'A piece: its text.';

-- Pieces stay in their row: a look into another table for each would cost more than it saves.
ALTER TABLE actlog.content ALTER COLUMN body SET STORAGE MAIN;
ALTER TABLE actlog.content_default ALTER COLUMN body SET STORAGE MAIN;

ALTER TABLE actlog.think_act_record ADD COLUMN think_input_parts bytea[];
COMMENT ON COLUMN actlog.think_act_record.think_input_parts IS
    'What think_input is kept in, if that is long: hashes of contents, in their order. think_input is a mark then: actlog:content: and the first 16 bytes of the SHA-256 of the text, in hex. Null: think_input is the text itself.';
COMMENT ON COLUMN actlog.think_act_record.think_input IS
    'The prompt. A long one is kept in parts, see think_input_parts; the view actlog.think_act_text has it whole.';

-- The partitions of the other detail have contents, too.
-- +goose StatementBegin
DO $$
DECLARE
    of record;
BEGIN
    FOR of IN SELECT replace(c.relname, 'think_act_record', 'content') AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
        FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'actlog.think_act_record'::regclass AND c.relname <> 'think_act_record_default'
    LOOP
        EXECUTE format('CREATE TABLE actlog.%I PARTITION OF actlog.content %s', of.name, of.bound);
    END LOOP;
END
$$;
-- +goose StatementEnd
SELECT actlog.compress_texts('actlog.content');

-- +goose StatementBegin
CREATE FUNCTION actlog.text_of(root text, part date, parts bytea[]) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    text text;
BEGIN
    -- Each content is looked up by its key, whatever the planner knows of the table.
    SELECT string_agg(
        COALESCE(piece.body, '[a part of this text is missing: ' || encode(COALESCE(page.hash, named.hash), 'hex') || ']'),
        '' ORDER BY named.place, page.place)
    INTO text
    FROM unnest(text_of.parts) WITH ORDINALITY AS named (hash, place)
    LEFT JOIN LATERAL (
        SELECT c.parts, c.body FROM actlog.content AS c
        WHERE c.root_plan_id = text_of.root AND c.hash = named.hash AND c.part = text_of.part
        OFFSET 0
    ) AS direct ON true
    LEFT JOIN LATERAL unnest(direct.parts) WITH ORDINALITY AS page (hash, place) ON true
    LEFT JOIN LATERAL (
        SELECT direct.body WHERE page.hash IS NULL
        UNION ALL
        SELECT c.body FROM actlog.content AS c
        WHERE c.root_plan_id = text_of.root AND c.hash = page.hash AND c.part = text_of.part AND c.parts IS NULL
        OFFSET 0
    ) AS piece ON true;
    RETURN text;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.text_of(text, date, bytea[]) IS
    'The text that is kept in parts in a tree: of root, part and think_input_parts of a cycle. A part that is missing leaves a note in its place.';

-- +goose StatementBegin
CREATE FUNCTION actlog.contents_of(root text, part date, named bytea[]) RETURNS TABLE (hash bytea, parts bytea[], body text) LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF cardinality(named) > 0 THEN
        RETURN QUERY
        SELECT c.hash, c.parts, c.body
        FROM actlog.content AS c
        WHERE c.root_plan_id = contents_of.root AND c.part = contents_of.part AND c.hash = ANY (contents_of.named || ARRAY(
            SELECT unnest(p.parts)
            FROM actlog.content AS p
            WHERE p.root_plan_id = contents_of.root AND p.part = contents_of.part AND p.hash = ANY (contents_of.named) AND p.parts IS NOT NULL
        ));
    END IF;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.contents_of(text, date, bytea[]) IS
    'The contents of a tree that are named, and those that these name, each once.';

CREATE VIEW actlog.think_act_text AS
SELECT r.root_plan_id, r.step_id, r.seq, r.part,
    CASE WHEN r.think_input_parts IS NOT NULL AND starts_with(r.think_input, 'actlog:content:')
        THEN actlog.text_of(r.root_plan_id, r.part, r.think_input_parts) ELSE r.think_input END AS think_input,
    r.think_output, r.action_description, r.action_result
FROM actlog.think_act_record AS r;
COMMENT ON VIEW actlog.think_act_text IS 'The texts of cycles, whole.';
COMMENT ON COLUMN actlog.think_act_text.root_plan_id IS 'The tree that the cycle belongs to.';
COMMENT ON COLUMN actlog.think_act_text.step_id IS 'The step of the cycle.';
COMMENT ON COLUMN actlog.think_act_text.seq IS 'The number of the cycle in its step, from 0.';
COMMENT ON COLUMN actlog.think_act_text.part IS 'First day of the period of the tree. A condition on it keeps Postgres from reading the other periods.';
COMMENT ON COLUMN actlog.think_act_text.think_input IS 'The prompt, whole.';
COMMENT ON COLUMN actlog.think_act_text.think_output IS 'The answer of the model.';
COMMENT ON COLUMN actlog.think_act_text.action_description IS 'What the cycle was about to do.';
COMMENT ON COLUMN actlog.think_act_text.action_result IS 'What came of it.';

-- +goose Down

DROP VIEW actlog.think_act_text;
UPDATE actlog.think_act_record AS r SET think_input = actlog.text_of(r.root_plan_id, r.part, r.think_input_parts)
WHERE r.think_input_parts IS NOT NULL AND starts_with(r.think_input, 'actlog:content:');
DROP FUNCTION actlog.contents_of(text, date, bytea[]);
DROP FUNCTION actlog.text_of(text, date, bytea[]);
COMMENT ON COLUMN actlog.think_act_record.think_input IS 'The input of the model.';
ALTER TABLE actlog.think_act_record DROP COLUMN think_input_parts;
DROP TABLE actlog.content;
