-- The cost of model calls. docs/design.md explains how a price is found for a call.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE TABLE actlog.model_price (
    provider         text COLLATE "C" NOT NULL,
    model            text COLLATE "C" NOT NULL,
    from_day         date NOT NULL,
    input_usd        double precision NOT NULL,
    output_usd       double precision NOT NULL,
    cache_read_usd   double precision,
    cache_write_usd  double precision,
    source           text,
    seen             date,
    PRIMARY KEY (provider, model, from_day),
    CONSTRAINT model_price_amounts CHECK (LEAST(input_usd, output_usd, cache_read_usd, cache_write_usd) >= 0
        AND GREATEST(input_usd, output_usd, cache_read_usd, cache_write_usd) <= 1e6)
);
COMMENT ON TABLE actlog.model_price IS 'What models cost, in US dollars per million tokens, by day. Change it with actlog price set; servers follow within a minute.';
COMMENT ON COLUMN actlog.model_price.provider IS 'The provider of the model, as cycles name it; empty: any provider.';
COMMENT ON COLUMN actlog.model_price.model IS 'The name of the model in lower case; * stands for any characters. If several patterns match, the one with the most characters other than * wins.';
COMMENT ON COLUMN actlog.model_price.from_day IS 'First UTC day of this price. It holds until the next price of the same model.';
COMMENT ON COLUMN actlog.model_price.input_usd IS 'US dollars per million input tokens without a cache.';
COMMENT ON COLUMN actlog.model_price.output_usd IS 'US dollars per million output tokens, reasoning included.';
COMMENT ON COLUMN actlog.model_price.cache_read_usd IS 'US dollars per million input tokens read from a cache; null: the price of input.';
COMMENT ON COLUMN actlog.model_price.cache_write_usd IS 'US dollars per million input tokens written to a cache; null: the price of input.';
COMMENT ON COLUMN actlog.model_price.source IS 'Where the price is published.';
COMMENT ON COLUMN actlog.model_price.seen IS 'When the price was seen there.';

-- Public list prices of the base tier. The comment on report.model_price says what they leave out.
INSERT INTO actlog.model_price (provider, model, from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen) VALUES
    ('alibaba', 'qwen-max', '2025-09-12', 1.6, 6.4, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-07-24'),
    ('alibaba', 'qwen3-max', '2025-09-23', 1.2, 6, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-07-02'),
    ('alibaba', 'qwen3.5-plus', '2026-02-16', 0.4, 2.4, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-07-02'),
    ('alibaba', 'qwen3.6-plus', '2026-04-02', 0.5, 3, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-08-05'),
    ('alibaba', 'qwen3.8-max', '2026-08-03', 2, 6, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-08-03'),
    ('anthropic', 'claude-3-5-haiku-*', '2024-12-03', 0.8, 4, 0.08, 1, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-3-5-sonnet-*', '2024-06-20', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-3-7-sonnet-*', '2025-02-24', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-3-haiku-*', '2024-03-13', 0.25, 1.25, 0.03, 0.3, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-fable-5', '2026-06-09', 10, 50, 1, 12.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-fable-5-1', '2026-09-01', 10, 50, 0.25, 12.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24'),
    ('anthropic', 'claude-haiku-4-5', '2025-10-15', 1, 5, 0.1, 1.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-haiku-4-5-20*', '2025-10-15', 1, 5, 0.1, 1.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-haiku-5-5', '2026-10-07', 0.1, 0.5, 0.01, 0.125, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24'),
    ('anthropic', 'claude-opus-4-1-20*', '2025-08-05', 15, 75, 1.5, 18.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-4-20*', '2025-05-22', 15, 75, 1.5, 18.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-4-5', '2025-11-24', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-4-5-20*', '2025-11-24', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-4-6', '2026-02-05', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-4-7', '2026-04-16', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-4-8', '2026-05-28', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-opus-5', '2026-07-24', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24'),
    ('anthropic', 'claude-opus-5-5', '2026-09-22', 4, 20, 0.2, 5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24'),
    ('anthropic', 'claude-sonnet-4-20*', '2025-05-22', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-sonnet-4-5', '2025-09-29', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-sonnet-4-5-20*', '2025-09-29', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-sonnet-4-6', '2026-02-17', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21'),
    ('anthropic', 'claude-sonnet-5', '2026-06-30', 2, 10, 0.2, 2.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24'),
    ('anthropic', 'claude-sonnet-5-5', '2026-09-28', 2, 10, 0.2, 2.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-01'),
    ('anthropic', 'claude-sonnet-5-5', '2026-10-07', 2, 10, 0.1, 2.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24'),
    ('aws.bedrock', '*anthropic.claude-3-5-sonnet-*', '2024-06-20', 3, 15, 0.3, 3.75, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('aws.bedrock', '*anthropic.claude-3-7-sonnet-2025*', '2025-02-24', 3, 15, 0.3, 3.75, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('aws.bedrock', '*anthropic.claude-sonnet-4-2025*', '2025-05-22', 3, 15, 0.3, 3.75, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('aws.bedrock', 'global.anthropic.claude-haiku-4-5-*', '2025-10-15', 1, 5, 0.1, 1.25, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('aws.bedrock', 'global.anthropic.claude-sonnet-4-5-*', '2025-09-29', 3, 15, 0.3, 3.75, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('aws.bedrock', 'us.anthropic.claude-haiku-4-5-*', '2025-10-15', 1.1, 5.5, 0.11, 1.375, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('aws.bedrock', 'us.anthropic.claude-sonnet-4-5-*', '2025-09-29', 3.3, 16.5, 0.33, 4.125, 'https://aws.amazon.com/bedrock/pricing/', '2026-08-21'),
    ('cohere', 'command-a-03-2025', '2025-03-13', 2.5, 10, NULL, NULL, 'https://cohere.com/pricing', '2026-08-21'),
    ('cohere', 'command-r-08-2024', '2024-08-30', 0.15, 0.6, NULL, NULL, 'https://cohere.com/pricing', '2026-11-11'),
    ('cohere', 'command-r7b-12-2024', '2024-12-13', 0.0375, 0.15, NULL, NULL, 'https://cohere.com/pricing', '2026-08-21'),
    ('deepseek', 'deepseek-chat', '2024-05-06', 0.14, 0.28, 0.014, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2025-01-13'),
    ('deepseek', 'deepseek-chat', '2025-02-08', 0.27, 1.1, 0.07, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2025-09-01'),
    ('deepseek', 'deepseek-chat', '2025-09-29', 0.28, 0.42, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-01-13'),
    ('deepseek', 'deepseek-chat', '2026-04-24', 0.14, 0.28, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23'),
    ('deepseek', 'deepseek-chat', '2026-05-12', 0.14, 0.28, 0.0028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-07-02'),
    ('deepseek', 'deepseek-flash', '2026-09-10', 0.15, 0.6, 0.003, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-10-27'),
    ('deepseek', 'deepseek-reasoner', '2025-01-20', 0.55, 2.19, 0.14, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2025-08-23'),
    ('deepseek', 'deepseek-reasoner', '2025-09-29', 0.28, 0.42, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-01-13'),
    ('deepseek', 'deepseek-reasoner', '2026-04-24', 0.14, 0.28, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23'),
    ('deepseek', 'deepseek-reasoner', '2026-05-12', 0.14, 0.28, 0.0028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-07-02'),
    ('deepseek', 'deepseek-v4-flash', '2026-04-24', 0.14, 0.28, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23'),
    ('deepseek', 'deepseek-v4-flash', '2026-05-12', 0.14, 0.28, 0.0028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-08-13'),
    ('deepseek', 'deepseek-v4-flash', '2026-08-17', 0.22, 0.66, 0.007, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-08-15'),
    ('deepseek', 'deepseek-v4-flash', '2026-09-10', 0.15, 0.6, 0.003, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-10-27'),
    ('deepseek', 'deepseek-v4-pro', '2026-04-24', 1.74, 3.48, 0.145, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23'),
    ('deepseek', 'deepseek-v4-pro', '2026-05-22', 0.435, 0.87, 0.003625, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-08-13'),
    ('deepseek', 'deepseek-v4-pro', '2026-08-17', 0.66, 1.98, 0.022, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-10-27'),
    ('gcp.gemini', 'gemini-2.0-flash', '2025-02-05', 0.1, 0.4, 0.025, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-2.5-flash', '2025-06-17', 0.3, 2.5, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-07-05'),
    ('gcp.gemini', 'gemini-2.5-flash', '2025-11-07', 0.3, 2.5, 0.03, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-2.5-flash-lite', '2025-07-22', 0.1, 0.4, 0.025, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-07-24'),
    ('gcp.gemini', 'gemini-2.5-flash-lite', '2025-11-07', 0.1, 0.4, 0.01, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-2.5-pro', '2025-06-17', 1.25, 10, 0.31, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-07-05'),
    ('gcp.gemini', 'gemini-2.5-pro', '2025-11-07', 1.25, 10, 0.125, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3-flash-preview', '2025-12-17', 0.5, 3, 0.05, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3-pro-preview', '2025-11-18', 2, 12, 0.2, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.1-flash-lite', '2026-05-07', 0.25, 1.5, 0.025, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.1-pro-preview', '2026-02-19', 2, 12, 0.2, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.5-flash', '2026-05-19', 1.5, 9, 0.15, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.5-flash-lite', '2026-07-21', 0.3, 2.5, 0.03, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.6-flash', '2026-07-21', 1.5, 7.5, 0.15, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-05'),
    ('gcp.gemini', 'gemini-3.6-flash', '2026-08-13', 0.75, 3.75, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.7-flash', '2026-08-13', 0.75, 3.75, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21'),
    ('gcp.gemini', 'gemini-3.8-flash', '2026-09-02', 0.75, 3.75, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-10-07'),
    ('gcp.gemini', 'gemini-4-argon', '2026-09-30', 2, 10, 0.1, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-11-11'),
    ('gcp.gemini', 'gemini-4-carbon', '2026-11-10', 2, 10, 0.1, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-11-11'),
    ('groq', 'gpt-oss-120b', '2025-08-05', 0.15, 0.75, NULL, NULL, 'https://groq.com/pricing/', '2025-09-01'),
    ('groq', 'gpt-oss-120b', '2025-11-11', 0.15, 0.6, 0.075, NULL, 'https://groq.com/pricing/', '2026-08-21'),
    ('groq', 'gpt-oss-20b', '2025-08-05', 0.1, 0.5, NULL, NULL, 'https://groq.com/pricing/', '2025-09-01'),
    ('groq', 'gpt-oss-20b', '2025-11-11', 0.075, 0.3, 0.0375, NULL, 'https://groq.com/pricing/', '2026-08-21'),
    ('groq', 'llama-3.1-8b-instant', '2024-07-23', 0.05, 0.08, NULL, NULL, 'https://groq.com/pricing/', '2026-08-21'),
    ('groq', 'llama-3.3-70b-versatile', '2024-12-06', 0.59, 0.79, NULL, NULL, 'https://groq.com/pricing/', '2026-08-21'),
    ('mistral_ai', 'codestral-2508', '2025-07-30', 0.3, 0.9, 0.03, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21'),
    ('mistral_ai', 'devstral-2512', '2026-01-29', 0.4, 2, 0.04, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21'),
    ('mistral_ai', 'mistral-large-2512', '2025-12-02', 0.5, 1.5, 0.05, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21'),
    ('mistral_ai', 'mistral-large-latest', '2024-11-18', 2, 6, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2025-09-01'),
    ('mistral_ai', 'mistral-large-latest', '2025-12-02', 0.5, 1.5, 0.05, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-02'),
    ('mistral_ai', 'mistral-medium-2505', '2025-05-07', 0.4, 2, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21'),
    ('mistral_ai', 'mistral-medium-2604', '2026-04-29', 1.5, 7.5, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-02'),
    ('mistral_ai', 'mistral-medium-latest', '2025-05-07', 0.4, 2, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2025-09-01'),
    ('mistral_ai', 'mistral-medium-latest', '2026-05-22', 1.5, 7.5, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-01'),
    ('mistral_ai', 'mistral-small-2603', '2026-03-16', 0.15, 0.6, 0.015, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21'),
    ('mistral_ai', 'mistral-small-latest', '2025-01-30', 0.1, 0.3, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-02-21'),
    ('mistral_ai', 'mistral-small-latest', '2026-03-16', 0.15, 0.6, 0.015, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-02'),
    ('moonshot', 'kimi-k2-0905-preview', '2025-09-05', 0.6, 2.5, 0.15, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21'),
    ('moonshot', 'kimi-k2-thinking', '2025-11-06', 0.6, 2.5, 0.15, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21'),
    ('moonshot', 'kimi-k2.5', '2026-01-27', 0.6, 3, 0.1, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21'),
    ('moonshot', 'kimi-k2.6', '2026-04-21', 0.95, 4, 0.16, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21'),
    ('moonshot', 'kimi-k2.7-code', '2026-06-12', 0.95, 4, 0.19, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21'),
    ('moonshot', 'kimi-k3', '2026-07-16', 3, 15, 0.3, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21'),
    ('moonshot', 'kimi-k3.1-pro', '2026-10-23', 2, 10, 0.2, 2, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-10-25'),
    ('openai', 'gpt-3.5-turbo', '2024-02-16', 0.5, 1.5, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-3.5-turbo-0125', '2024-01-25', 0.5, 1.5, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4.1', '2025-04-14', 2, 8, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4.1-20*', '2025-04-14', 2, 8, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4.1-mini', '2025-04-14', 0.4, 1.6, 0.1, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4.1-mini-20*', '2025-04-14', 0.4, 1.6, 0.1, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4o', '2024-05-13', 5, 15, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2024-05-14'),
    ('openai', 'gpt-4o', '2024-10-02', 2.5, 10, 1.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4o-20*', '2024-08-06', 2.5, 10, 1.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4o-2024-05-13', '2024-05-13', 5, 15, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-07-24'),
    ('openai', 'gpt-4o-mini', '2024-07-18', 0.15, 0.6, 0.075, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-4o-mini-20*', '2024-07-18', 0.15, 0.6, 0.075, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5', '2025-08-07', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5-20*', '2025-08-07', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5-codex', '2025-09-23', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5-mini', '2025-08-07', 0.25, 2, 0.025, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5-mini-20*', '2025-08-07', 0.25, 2, 0.025, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5-nano', '2025-08-07', 0.05, 0.4, 0.005, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5-nano-20*', '2025-08-07', 0.05, 0.4, 0.005, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.1', '2025-11-13', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.1-20*', '2025-11-13', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.1-codex', '2025-11-13', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.2', '2025-12-11', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.2-20*', '2025-12-11', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.2-codex', '2026-01-14', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.3-codex', '2026-02-24', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.4', '2026-03-05', 2.5, 15, 0.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.4-20*', '2026-03-05', 2.5, 15, 0.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.4-mini', '2026-03-17', 0.75, 4.5, 0.075, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.4-mini-20*', '2026-03-17', 0.75, 4.5, 0.075, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.5', '2026-04-23', 5, 30, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.5-20*', '2026-04-23', 5, 30, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.6-luna', '2026-07-09', 1, 6, 0.1, 1.25, 'https://developers.openai.com/api/docs/pricing', '2026-07-24'),
    ('openai', 'gpt-5.6-luna', '2026-07-30', 0.2, 1.2, 0.02, 0.25, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-5.6-sol', '2026-07-09', 5, 30, 0.5, 6.25, 'https://developers.openai.com/api/docs/pricing', '2026-08-05'),
    ('openai', 'gpt-5.6-sol', '2026-08-21', 4, 20, 0.4, 5, 'https://developers.openai.com/api/docs/pricing', '2026-09-24'),
    ('openai', 'gpt-5.6-terra', '2026-07-09', 2.5, 15, 0.25, 3.125, 'https://developers.openai.com/api/docs/pricing', '2026-07-24'),
    ('openai', 'gpt-5.6-terra', '2026-07-30', 2, 12, 0.2, 2.5, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'gpt-6-astra', '2026-09-03', 10, 50, 1, 12.5, 'https://developers.openai.com/api/docs/models/gpt-6-astra', '2026-09-07'),
    ('openai', 'gpt-6-luna', '2026-09-22', 0.1, 0.5, 0.01, 0.125, 'https://developers.openai.com/api/docs/models/gpt-6-luna', '2026-09-23'),
    ('openai', 'gpt-6-sol', '2026-09-22', 2, 10, 0.2, 2.5, 'https://developers.openai.com/api/docs/models/gpt-6-sol', '2026-09-23'),
    ('openai', 'gpt-6.1-sol', '2026-09-29', 2, 10, 0.1, 2.5, 'https://developers.openai.com/api/docs/models/gpt-6.1-sol', '2026-10-01'),
    ('openai', 'gpt-6.1-terra', '2026-10-26', 1, 5, 0.05, 1.25, 'https://developers.openai.com/api/docs/models/gpt-6.1-terra', '2026-10-27'),
    ('openai', 'o3', '2025-04-16', 10, 40, 2.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-05-07'),
    ('openai', 'o3', '2025-06-10', 2, 8, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'o3-20*', '2025-04-16', 10, 40, 2.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-05-07'),
    ('openai', 'o3-20*', '2025-06-10', 2, 8, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'o4-mini', '2025-04-16', 1.1, 4.4, 0.275, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('openai', 'o4-mini-20*', '2025-04-16', 1.1, 4.4, 0.275, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21'),
    ('perplexity', 'sonar', '2025-01-21', 1, 1, NULL, NULL, 'https://docs.perplexity.ai/guides/pricing', '2026-08-21'),
    ('perplexity', 'sonar-pro', '2025-01-21', 3, 15, NULL, NULL, 'https://docs.perplexity.ai/guides/pricing', '2026-08-21'),
    ('perplexity', 'sonar-reasoning-pro', '2025-05-08', 2, 8, NULL, NULL, 'https://docs.perplexity.ai/guides/pricing', '2026-08-21'),
    ('x_ai', 'grok-3', '2025-04-09', 3, 15, 0.75, NULL, 'https://docs.x.ai/docs/models', '2026-08-21'),
    ('x_ai', 'grok-4', '2025-07-09', 3, 15, 0.75, NULL, 'https://docs.x.ai/docs/models', '2026-08-21'),
    ('x_ai', 'grok-4-0709', '2025-07-09', 3, 15, 0.75, NULL, 'https://docs.x.ai/docs/models', '2026-08-21'),
    ('x_ai', 'grok-4-1-fast-reasoning', '2025-11-19', 0.2, 0.5, 0.05, NULL, 'https://docs.x.ai/docs/models', '2026-08-21'),
    ('x_ai', 'grok-4-fast-reasoning', '2025-09-19', 0.2, 0.5, 0.05, NULL, 'https://docs.x.ai/docs/models', '2026-08-21'),
    ('x_ai', 'grok-4.3', '2026-05-01', 1.25, 2.5, 0.2, NULL, 'https://docs.x.ai/docs/models', '2026-08-21'),
    ('x_ai', 'grok-4.5', '2026-07-08', 2, 6, 0.5, NULL, 'https://docs.x.ai/docs/models', '2026-07-24'),
    ('x_ai', 'grok-4.5', '2026-08-05', 2, 6, 0.3, NULL, 'https://docs.x.ai/docs/models', '2026-08-19'),
    ('x_ai', 'grok-4.6', '2026-08-12', 2, 6, 0.5, NULL, 'https://docs.x.ai/docs/models', '2026-09-09'),
    ('x_ai', 'grok-4.7', '2026-09-21', 2, 6, 0.5, NULL, 'https://docs.x.ai/docs/models', '2026-09-29'),
    ('x_ai', 'grok-code-fast-1', '2025-08-28', 0.2, 1.5, 0.02, NULL, 'https://docs.x.ai/docs/models', '2026-08-21');

-- +goose StatementBegin
CREATE FUNCTION actlog.cost_usd(told numeric, input bigint, output bigint, cache_read bigint, cache_creation bigint,
    input_price double precision, output_price double precision, cache_read_price double precision, cache_write_price double precision)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF told IS NOT NULL THEN
        RETURN told;
    ELSIF COALESCE(input, output) IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN round((
        (  GREATEST(0, COALESCE(input, 0) - COALESCE(cache_read, 0) - COALESCE(cache_creation, 0)) * input_price
         + COALESCE(cache_read, 0) * cache_read_price
         + COALESCE(cache_creation, 0) * cache_write_price
         + COALESCE(output, 0) * output_price
        ) / 1000000)::numeric, 12);
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.cost_usd(numeric, bigint, bigint, bigint, bigint, double precision, double precision, double precision, double precision) IS
    'Cost of a model call in US dollars: as reported, else computed from its tokens and the prices per million tokens; null if neither is known. Input tokens include cached ones.';

-- A cycle keeps the prices that held when its model was reported. Its cost is computed from
-- them and its tokens, in whatever order these arrive. A reported cost wins.
-- The formula is a function because PL/pgSQL keeps it ready. As an expression in the table,
-- each statement that writes would read it again; that was an eighth of the time of a small one.
ALTER TABLE actlog.think_act_record RENAME COLUMN cost_usd TO told_cost_usd;
ALTER TABLE actlog.think_act_record
    ADD COLUMN input_price double precision,
    ADD COLUMN output_price double precision,
    ADD COLUMN cache_read_price double precision,
    ADD COLUMN cache_write_price double precision,
    ADD COLUMN cost_usd numeric GENERATED ALWAYS AS (actlog.cost_usd(told_cost_usd, input_tokens, output_tokens,
        cache_read_input_tokens, cache_creation_input_tokens, input_price, output_price, cache_read_price, cache_write_price)) STORED;
COMMENT ON COLUMN actlog.think_act_record.told_cost_usd IS 'Cost of the model call in US dollars, as reported. Read cost_usd instead.';
COMMENT ON COLUMN actlog.think_act_record.input_price IS 'US dollars per million input tokens, at the time when the model was reported; null: no price is known.';
COMMENT ON COLUMN actlog.think_act_record.output_price IS 'The same for output tokens.';
COMMENT ON COLUMN actlog.think_act_record.cache_read_price IS 'The same for input tokens read from a cache.';
COMMENT ON COLUMN actlog.think_act_record.cache_write_price IS 'The same for input tokens written to a cache.';
COMMENT ON COLUMN actlog.think_act_record.cost_usd IS 'Cost of the model call in US dollars: as reported, else computed from its tokens and prices; null if neither is known.';

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE actlog.model_price
            ALTER COLUMN provider SET COMPRESSION lz4, ALTER COLUMN model SET COMPRESSION lz4, ALTER COLUMN source SET COMPRESSION lz4;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down

ALTER TABLE actlog.think_act_record DROP COLUMN cost_usd;
-- CASCADE, because detached partitions have the column, too.
DROP FUNCTION actlog.cost_usd(numeric, bigint, bigint, bigint, bigint, double precision, double precision, double precision, double precision) CASCADE;
ALTER TABLE actlog.think_act_record
    DROP COLUMN input_price,
    DROP COLUMN output_price,
    DROP COLUMN cache_read_price,
    DROP COLUMN cache_write_price;
ALTER TABLE actlog.think_act_record RENAME COLUMN told_cost_usd TO cost_usd;
COMMENT ON COLUMN actlog.think_act_record.cost_usd IS 'Cost of the model call in US dollars; null if it is not known.';
DROP TABLE actlog.model_price;
