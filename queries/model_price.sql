-- name: ModelPrices :many
SELECT provider, model, from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen, cache_write_1h_usd, tiers, list_date
FROM actlog.model_price
WHERE seen IS NULL OR list_date IS NOT NULL
ORDER BY provider, model, from_day;

-- name: ModelPriceSet :execrows
-- Sets a price. One of the list does not take the place of one of the operator.
INSERT INTO actlog.model_price AS p (
    provider, model, from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, cache_write_1h_usd, tiers, source, seen, list_date
)
VALUES (@provider::text, @model::text, @from_day::date, @input_usd::double precision, @output_usd::double precision,
    sqlc.narg('cache_read_usd')::double precision, sqlc.narg('cache_write_usd')::double precision,
    sqlc.narg('cache_write_1h_usd')::double precision, sqlc.narg('tiers')::json,
    sqlc.narg('source')::text, sqlc.narg('seen')::date, sqlc.narg('list_date')::date)
ON CONFLICT (provider, model, from_day) DO UPDATE SET
    input_usd = excluded.input_usd,
    output_usd = excluded.output_usd,
    cache_read_usd = excluded.cache_read_usd,
    cache_write_usd = excluded.cache_write_usd,
    cache_write_1h_usd = excluded.cache_write_1h_usd,
    tiers = excluded.tiers,
    source = excluded.source,
    seen = excluded.seen,
    list_date = excluded.list_date
WHERE excluded.list_date IS NULL OR p.seen IS NOT NULL;

-- name: ModelPriceListed :exec
-- Dates the list of prices.
UPDATE actlog.model_price SET list_date = @list_date::date WHERE list_date <> @list_date::date;

-- name: ModelPriceDelete :execrows
DELETE FROM actlog.model_price
WHERE provider = @provider::text AND model = @model::text AND from_day = @from_day::date;

-- name: ModelUnpriced :many
-- Returns the models of cycles without a price, by model and day. The day is computed as in
-- report.usage_daily, because that expression is indexed.
SELECT
    c.provider, c.model_name::text AS model,
    (date_trunc('day', COALESCE(c.think_start_time AT TIME ZONE 'utc', c.think_end_time AT TIME ZONE 'utc', c.part)) AT TIME ZONE 'utc')::timestamptz AS day
FROM actlog.think_act_record AS c
WHERE date_trunc('day', COALESCE(c.think_start_time AT TIME ZONE 'utc', c.think_end_time AT TIME ZONE 'utc', c.part)) AT TIME ZONE 'utc'
        >= date_trunc('day', @since::timestamptz, 'UTC')
    AND c.input_price IS NULL AND c.model_name IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY 3, 2, 1;

-- name: ModelUnpricedSteps :many
-- Returns steps that have such cycles, of one model and day.
SELECT DISTINCT c.root_plan_id, c.step_id
FROM actlog.think_act_record AS c
WHERE date_trunc('day', COALESCE(c.think_start_time AT TIME ZONE 'utc', c.think_end_time AT TIME ZONE 'utc', c.part)) AT TIME ZONE 'utc' = @day::timestamptz
    AND c.input_price IS NULL AND c.model_name = @model::text
    AND COALESCE(c.provider, '') = @provider::text
ORDER BY 1, 2
LIMIT 500;

-- name: ModelPriceApply :execrows
UPDATE actlog.think_act_record AS c
SET input_price = @input_usd::double precision,
    output_price = @output_usd::double precision,
    cache_read_price = @cache_read_usd::double precision,
    cache_write_price = @cache_write_usd::double precision,
    tariff = sqlc.narg('tariff')::json
FROM unnest(@root_plan_ids::text[], @step_ids::text[]) AS s (root_plan_id, step_id)
WHERE c.root_plan_id = s.root_plan_id AND c.step_id = s.step_id
    AND date_trunc('day', COALESCE(c.think_start_time AT TIME ZONE 'utc', c.think_end_time AT TIME ZONE 'utc', c.part)) AT TIME ZONE 'utc' = @day::timestamptz
    AND c.input_price IS NULL AND c.model_name = @model::text AND COALESCE(c.provider, '') = @provider::text;
