-- The search over runs: its index, the texts of recent runs, and the functions by which Postgres rules out texts that
-- cannot have what is looked for. docs/design.md explains how they are used.

-- +goose Up

-- The index over runs. --------------------------------------------------------------------

CREATE TABLE actlog.search_fresh (
    root_plan_id  text COLLATE "C" NOT NULL,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    said_at       timestamptz NOT NULL DEFAULT now(),
    text          text COLLATE "C" NOT NULL,
    PRIMARY KEY (root_plan_id, id)
);

COMMENT ON TABLE actlog.search_fresh IS 'Texts that were written to a tree and are not in the index yet. A search reads all of them.';
COMMENT ON COLUMN actlog.search_fresh.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.search_fresh.id IS 'Grows with each row.';
COMMENT ON COLUMN actlog.search_fresh.said_at IS 'When the transaction that wrote them began. If the root plan was first seen then, the fresh texts have all that the tree has.';
COMMENT ON COLUMN actlog.search_fresh.text IS 'The texts, one per line, in lower case.';

CREATE TABLE actlog.search_text (
    root_plan_id  text COLLATE "C" NOT NULL,
    text          text COLLATE "C" NOT NULL,
    began_at      timestamptz,
    PRIMARY KEY (root_plan_id) INCLUDE (began_at)
);

COMMENT ON TABLE actlog.search_text IS 'The searchable texts of each tree, as far as they are in the index. What the index finds is checked with them.';
COMMENT ON COLUMN actlog.search_text.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.search_text.text IS 'The texts, one per line, in lower case. A text that was replaced stays.';
COMMENT ON COLUMN actlog.search_text.began_at IS 'When the root plan began, or was first seen if that was not told, as its latest slice knows it; null: it is in none. If it is another time now, the tree is added to a later slice.';

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
COMMENT ON COLUMN actlog.search_slice.newest_at IS 'When its newest root plan began.';
COMMENT ON COLUMN actlog.search_slice.newest_id IS 'Its newest root plan.';
COMMENT ON COLUMN actlog.search_slice.oldest_at IS 'When its oldest root plan began.';
COMMENT ON COLUMN actlog.search_slice.oldest_id IS 'Its oldest root plan.';

CREATE TABLE actlog.search_member (
    slice         integer NOT NULL,
    position      integer NOT NULL,
    began_at      timestamptz NOT NULL,
    root_plan_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (slice, position)
);

COMMENT ON TABLE actlog.search_member IS 'The trees of each slice.';
COMMENT ON COLUMN actlog.search_member.slice IS 'The slice.';
COMMENT ON COLUMN actlog.search_member.position IS 'Place of the tree in the slice, from 0, newest first.';
COMMENT ON COLUMN actlog.search_member.began_at IS 'When the root plan began, or was first seen if that was not told, as far as was known then.';
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

COMMENT ON TABLE actlog.search_backfill IS 'Has a row while runs may be missing in the index: from a migration that makes or remakes it until the upkeep has added all runs.';
COMMENT ON COLUMN actlog.search_backfill.since IS 'When the migration was applied.';
INSERT INTO actlog.search_backfill
SELECT now() WHERE EXISTS (SELECT FROM actlog.plan_execution_record);

-- What the runs of the present period say. ------------------------------------------------

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

SELECT actlog.compress_texts(t::regclass)
FROM unnest('{actlog.search_fresh,actlog.search_text,actlog.search_slice,actlog.search_member,actlog.recent_text,actlog.recent_progress}'::text[]) AS t;

-- What a text may have. Package search then decides. --------------------------------------

-- Letters that become ASCII letters when texts are compared, and escapes of characters of words, are rare. So a text
-- that has some costs more.

-- +goose StatementBegin
CREATE FUNCTION actlog.search_rare(raw text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN raw COLLATE "C" ~ '\\u(00(2[dD]|3[0-9]|4[1-9a-fA-F]|5[0-9acfACF]|6[1-9a-fA-F]|7[0-9aA])|212[aA]|0130|0307)';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_rare(text) IS
    'Reports whether a text has an escape of JSON that may stand for a character of a word, or a part of one. Ask it only of texts with such escapes.';

-- +goose StatementBegin
CREATE FUNCTION actlog.search_unescape(raw text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT COALESCE(string_agg(CASE
        WHEN NOT starts_with(token[1], '\') OR length(token[1]) = 1 THEN token[1]
        WHEN length(token[1]) = 6 THEN -- a text of Postgres has neither NUL nor half of a pair
            CASE WHEN token[1] ~ '^\\u([dD][89a-fA-F]..|0000)' THEN U&'\FFFD' ELSE chr(('x' || right(token[1], 4))::bit(16)::integer) END
        WHEN right(token[1], 1) IN ('n', 'r', 't', 'b', 'f') THEN E'\n'
        WHEN right(token[1], 1) IN ('"', '/', '\') THEN right(token[1], 1)
        ELSE token[1]
    END, '' ORDER BY n), '')
    FROM regexp_matches(raw COLLATE "C", '([^\\]+|\\u[0-9a-fA-F]{4}|\\.|\\)', 'g') WITH ORDINALITY AS t (token, n)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_unescape(text) IS
    'A text with the characters that the escapes of JSON in it stand for.';

-- +goose StatementBegin
CREATE FUNCTION actlog.search_lower(raw text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF octet_length(raw) <> length(raw) THEN
        raw := replace(replace(replace(raw COLLATE "C", U&'I\0307', 'i'), U&'\0130', 'i'), U&'\212A', 'k');
    END IF;
    RETURN lower(raw COLLATE "C");
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_lower(text) IS
    'A text with small ASCII letters, also in place of the other letters that become such.';

-- +goose StatementBegin
CREATE FUNCTION actlog.search_fold(VARIADIC texts text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
DECLARE
    raw text := array_to_string(texts, E'\n');
    once text;
BEGIN
    IF strpos(raw COLLATE "C", '\u') = 0 OR NOT actlog.search_rare(raw) THEN
        RETURN actlog.search_lower(raw);
    END IF;
    once := actlog.search_unescape(raw);
    RETURN actlog.search_lower(raw || E'\n' || once || E'\n' || actlog.search_unescape(once));
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_fold(text[]) IS
    'Has every sequence of small ASCII letters, digits, - and _ that a search can find in one of some texts.';

-- Postgres finds bytes in bytes faster than texts in texts.
-- +goose StatementBegin
CREATE FUNCTION actlog.search_has(raw bytea, word text, bare bytea, alike bytea[]) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
DECLARE
    other bytea;
BEGIN
    IF position(bare IN raw) > 0 THEN
        IF strpos(lower(convert_from(raw, 'UTF8') COLLATE "C"), word) > 0 THEN
            RETURN true;
        END IF;
        FOREACH other IN ARRAY alike LOOP
            IF position(other IN raw) > 0 THEN
                RETURN true;
            END IF;
        END LOOP;
    END IF;
    RETURN position('\x5c75'::bytea IN raw) > 0 AND actlog.search_rare(convert_from(raw, 'UTF8'));
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_has(bytea, text, bytea, bytea[]) IS
    'Reports whether a search may find a sequence of small ASCII letters, digits, - and _ in a text in UTF-8. bare is a part of it without letters, and may be empty. alike has what may become its letters.';

-- A text is cut within a word if the word is long. Then no piece may have what is looked for.

-- +goose StatementBegin
CREATE FUNCTION actlog.search_cut(raw bytea) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 500 AS $$
DECLARE
    last integer;
BEGIN
    IF raw = '' THEN
        RETURN false;
    END IF;
    last := get_byte(raw, octet_length(raw) - 1);
    RETURN (last >= 128 OR chr(last) ~ '[A-Za-z0-9_\\-]') AND right(convert_from(raw, 'UTF8'), 16) COLLATE "C" !~ U&'[^A-Za-z0-9_\\\\\0080-\+10FFFF-]';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_cut(bytea) IS 'Reports whether a piece may end within a word or an escape of JSON.';

-- +goose StatementBegin
CREATE FUNCTION actlog.search_begins(raw bytea, word text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
DECLARE
    small text := actlog.search_lower(right(convert_from(raw, 'UTF8'), 1100));
BEGIN
    IF small COLLATE "C" ~ '\\(u[0-9a-f]{0,3})?$' THEN
        RETURN true;
    END IF;
    FOR n IN 1 .. length(word) - 1 LOOP
        IF right(small, n) COLLATE "C" = left(word, n) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_begins(bytea, text) IS
    'Reports whether the word of a search may begin at the end of a piece that ends within a word.';

-- +goose StatementBegin
CREATE FUNCTION actlog.search_piece_fold(body text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
BEGIN
    RETURN actlog.search_fold(body) || CASE WHEN actlog.search_cut(convert_to(body, 'UTF8')) THEN E'\nqzxjkvwqy' ELSE '' END;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_piece_fold(text) IS
    'search_fold of a piece. One that may end within a word has the word qzxjkvwqy in addition.';

-- +goose Down

-- The upkeep that fills the index uses these tables in another order. It leaves them alone while this lock is held;
-- without it, both would wait for each other.
SELECT pg_advisory_xact_lock(hashtext('actlog.search'));
DROP FUNCTION actlog.search_piece_fold(text), actlog.search_begins(bytea, text), actlog.search_cut(bytea),
    actlog.search_has(bytea, text, bytea, bytea[]), actlog.search_fold(text[]), actlog.search_lower(text),
    actlog.search_unescape(text), actlog.search_rare(text);
DROP TABLE actlog.recent_progress, actlog.recent_gram, actlog.recent_slice, actlog.recent_text;
DROP TABLE actlog.search_backfill, actlog.search_deletion, actlog.search_gram, actlog.search_member, actlog.search_slice,
    actlog.search_text, actlog.search_fresh;
