-- The search in texts: functions by which Postgres rules out texts that cannot have what is looked for. Package search
-- then decides. docs/design.md explains how.

-- +goose Up

-- Letters that become ASCII letters when texts are compared, and escapes of characters of words, are rare. So a text that
-- has some costs more.

-- +goose StatementBegin
CREATE FUNCTION actlog.search_rare(raw text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN raw COLLATE "C" ~ '\\u(00(2[dD]|3[0-9]|4[1-9a-fA-F]|5[0-9acfACF]|6[1-9a-fA-F]|7[0-9aA])|212[aA]|0130|0307)';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_rare(text) IS 'Reports whether a text has an escape of JSON that may stand for a character of a word, or a part of one. Ask it only of texts with such escapes.';

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
COMMENT ON FUNCTION actlog.search_unescape(text) IS 'A text with the characters that the escapes of JSON in it stand for.';

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
COMMENT ON FUNCTION actlog.search_lower(text) IS 'A text with small ASCII letters, also in place of the other letters that become such.';

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
COMMENT ON FUNCTION actlog.search_fold(text[]) IS 'Has every sequence of small ASCII letters, digits, - and _ that a search can find in one of some texts.';

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
COMMENT ON FUNCTION actlog.search_begins(bytea, text) IS 'Reports whether the word of a search may begin at the end of a piece that ends within a word.';

-- +goose StatementBegin
CREATE FUNCTION actlog.search_piece_fold(body text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
BEGIN
    RETURN actlog.search_fold(body) || CASE WHEN actlog.search_cut(convert_to(body, 'UTF8')) THEN E'\nqzxjkvwqy' ELSE '' END;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.search_piece_fold(text) IS 'search_fold of a piece. One that may end within a word has the word qzxjkvwqy in addition.';

-- +goose Down

DROP FUNCTION actlog.search_piece_fold(text), actlog.search_begins(bytea, text), actlog.search_cut(bytea), actlog.search_has(bytea, text, bytea, bytea[]),
    actlog.search_fold(text[]), actlog.search_lower(text), actlog.search_unescape(text), actlog.search_rare(text);
