-- Prices of every kind of token: writes to a cache that are kept for an hour, and tiers by the length of the
-- prompt. The price list says its date. docs/design.md explains how a call gets its price.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

ALTER TABLE actlog.model_price
    ADD COLUMN cache_write_1h_usd double precision,
    ADD COLUMN tiers json,
    ADD COLUMN list_date date,
    ADD CONSTRAINT model_price_1h CHECK (cache_write_1h_usd BETWEEN 0 AND 1e6) NOT VALID;
COMMENT ON TABLE actlog.model_price IS 'What models cost, in US dollars per million tokens, by day. Change it with actlog price set or import; servers follow within a minute.';
COMMENT ON COLUMN actlog.model_price.model IS 'The name of the model in lower case. In prices of your own, * stands for any characters.';
COMMENT ON COLUMN actlog.model_price.cache_write_1h_usd IS 'US dollars per million input tokens written to a cache for an hour; null: twice the price of input.';
COMMENT ON COLUMN actlog.model_price.tiers IS 'The prices of longer prompts: a list of objects with above, the number of input tokens above which they hold, and input, output, cacheRead, cacheWrite and cacheWrite1h; null: none.';
COMMENT ON COLUMN actlog.model_price.seen IS 'When the price was seen there; null: a price of your own, which counts before those of the list.';
COMMENT ON COLUMN actlog.model_price.list_date IS 'The date of the price list that has the price. Null: a price of your own, or one that only servers of the previous release use.';
SELECT actlog.compress_texts('actlog.model_price');

-- Names of models find their price without their date, their vendor and where they run. So the list has one name
-- per model, and no patterns. The rows with patterns are for servers of the previous release.
UPDATE actlog.model_price SET list_date = '2026-11-11' WHERE seen IS NOT NULL AND provider <> 'aws.bedrock' AND model NOT LIKE '%*%';
INSERT INTO actlog.model_price (provider, model, from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen, list_date)
SELECT provider, regexp_replace(model, '(-20)?-?\*$', ''), from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen, '2026-11-11'
FROM actlog.model_price AS p
WHERE seen IS NOT NULL AND provider <> 'aws.bedrock' AND model LIKE '%*'
    AND NOT EXISTS (SELECT FROM actlog.model_price AS e WHERE e.provider = p.provider AND e.model = regexp_replace(p.model, '(-20)?-?\*$', ''));
INSERT INTO actlog.model_price (provider, model, from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen, list_date) VALUES
    ('anthropic', 'claude-3-opus', '2024-03-04', 15, 75, 1.5, 18.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-02-17', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4', '2026-05-01', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4-5', '2026-05-01', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.0-flash-lite', '2025-02-25', 0.075, 0.3, NULL, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('gcp.gemini', 'gemini-4-argon', '2026-12-01', 4, 20, 0.2, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-10-13', '2026-11-11'),
    ('openai', 'gpt-4.1-nano', '2025-04-14', 0.1, 0.4, 0.025, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'gpt-4o-2024-08-06', '2024-08-06', 2.5, 10, 1.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'o3-mini', '2025-01-31', 1.1, 4.4, 0.55, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-3.5-turbo', '2023-08-22', 3, 6, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4.1', '2025-04-14', 3, 12, 0.75, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4.1-mini', '2025-04-14', 0.8, 3.2, 0.2, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4.1-nano', '2025-04-14', 0.2, 0.8, 0.05, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4o', '2024-08-20', 3.75, 15, 1.875, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4o-mini', '2024-07-23', 0.3, 1.2, 0.15, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:o4-mini', '2025-05-08', 4, 16, 1, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11')
ON CONFLICT DO NOTHING;
UPDATE actlog.model_price SET cache_write_1h_usd = 2 * input_usd WHERE list_date IS NOT NULL AND provider = 'anthropic';

-- What longer prompts cost, by the factors of the providers: the price of input, of its cache, and of output.
UPDATE actlog.model_price AS p
SET tiers = json_build_array(json_strip_nulls(json_build_object(
    'above', t.above, 'input', p.input_usd * t.input, 'output', p.output_usd * t.output,
    'cacheRead', p.cache_read_usd * t.input, 'cacheWrite', p.cache_write_usd * t.input, 'cacheWrite1h', p.cache_write_1h_usd * t.input
)))
FROM (VALUES
    ('anthropic', '^claude-sonnet-4(-5)?$', 200000, 2, 1.5),
    ('gcp.gemini', '^gemini-2\.5-pro$|^gemini-3(\.1)?-pro-preview$', 200000, 2, 1.5),
    ('openai', '^gpt-5\.[45]$|^gpt-5\.6-|^gpt-6(\.1)?-', 272000, 2, 1.5),
    ('x_ai', '^grok-4(-0709)?$|^grok-4(-1)?-fast-reasoning$', 128000, 2, 2),
    ('x_ai', '^grok-4\.5$', 200000, 2, 2)
) AS t (provider, models, above, input, output)
WHERE p.list_date IS NOT NULL AND p.provider = t.provider AND p.model ~ t.models
    AND (p.provider <> 'anthropic' OR p.from_day < '2026-05-01'); -- since then these models take no longer prompts

ALTER TABLE actlog.think_act_record
    ADD COLUMN cache_creation_1h_input_tokens bigint,
    ADD COLUMN tariff json;
COMMENT ON COLUMN actlog.think_act_record.cache_creation_1h_input_tokens IS 'Those of cache_creation_input_tokens that were written to be kept for an hour.';
COMMENT ON COLUMN actlog.think_act_record.tariff IS 'All prices of the model at that time, by the length of the prompt; null: those of the row are all. Those of the row are the ones of its tier.';
COMMENT ON COLUMN actlog.think_act_record.input_price IS 'US dollars per million input tokens of this call, at the time when the model was reported; null: no price is known.';
COMMENT ON COLUMN actlog.think_act_record.cache_write_price IS 'The same for input tokens written to a cache: the average, if some are kept for an hour.';
SELECT actlog.compress_texts('actlog.think_act_record');

-- The cost is a generated column of four prices, which cannot be changed without writing the table again. So the
-- prices of a call are chosen before it is computed: those of its tier. A call without a tariff does not come here.
-- +goose StatementBegin
CREATE FUNCTION actlog.price_call() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tier json;
    each json;
    written bigint := GREATEST(COALESCE(NEW.cache_creation_input_tokens, 0), 0);
    hour bigint := LEAST(COALESCE(NEW.cache_creation_1h_input_tokens, 0), written);
BEGIN
    FOR each IN SELECT e.value FROM json_array_elements(NEW.tariff) AS e LOOP -- the shortest prompts first
        EXIT WHEN tier IS NOT NULL AND COALESCE(NEW.input_tokens, 0) <= (each ->> 'above')::bigint;
        tier := each;
    END LOOP;
    NEW.input_price := (tier ->> 'input')::double precision;
    NEW.output_price := (tier ->> 'output')::double precision;
    NEW.cache_read_price := (tier ->> 'cacheRead')::double precision;
    NEW.cache_write_price := (tier ->> 'cacheWrite')::double precision;
    IF hour > 0 THEN
        NEW.cache_write_price := ((written - hour) * NEW.cache_write_price + hour * (tier ->> 'cacheWrite1h')::double precision) / written;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.price_call() IS 'Gives a model call the prices of its tier.';
CREATE TRIGGER price_call BEFORE INSERT OR UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (NEW.tariff IS NOT NULL) EXECUTE FUNCTION actlog.price_call();

CREATE OR REPLACE VIEW report.model_price AS
SELECT
    provider, model, from_day::timestamp AT TIME ZONE 'utc' AS from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen,
    cache_write_1h_usd, tiers::text AS tiers, list_date
FROM actlog.model_price
WHERE seen IS NULL OR list_date IS NOT NULL;
COMMENT ON VIEW report.model_price IS 'What models cost, in US dollars per million tokens, by the first day of the price: your own prices, and those of the price list. Discounts of batches and off-peak hours are left out.';
COMMENT ON COLUMN report.model_price.seen IS 'When the price was seen there; null: a price of your own.';
COMMENT ON COLUMN report.model_price.cache_write_1h_usd IS 'US dollars per million input tokens written to a cache for an hour; null: twice the price of input.';
COMMENT ON COLUMN report.model_price.tiers IS 'The prices of longer prompts, as JSON: above is the number of input tokens above which they hold.';
COMMENT ON COLUMN report.model_price.list_date IS 'The date of the price list that has the price; null: a price of your own.';

-- +goose Down

DROP VIEW report.model_price;
CREATE VIEW report.model_price AS
SELECT provider, model, from_day::timestamp AT TIME ZONE 'utc' AS from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen
FROM actlog.model_price;
DROP TRIGGER price_call ON actlog.think_act_record;
DROP FUNCTION actlog.price_call();
ALTER TABLE actlog.think_act_record DROP COLUMN tariff, DROP COLUMN cache_creation_1h_input_tokens;
ALTER TABLE actlog.model_price DROP COLUMN list_date, DROP COLUMN tiers, DROP COLUMN cache_write_1h_usd;
