-- Limits of models and tools over all workers: each worker is granted a part of them, which it uses without asking.

-- +goose Up

CREATE TABLE actlog.worker_grant (
    limit_name  text COLLATE "C",
    worker_id   text COLLATE "C",
    units       bigint NOT NULL,
    wanted      bigint NOT NULL,
    lasting     boolean NOT NULL,
    most        bigint NOT NULL,
    round       bigint NOT NULL,
    turn        bigint NOT NULL,
    grown_at    timestamptz NOT NULL,
    PRIMARY KEY (limit_name, worker_id)
);
CREATE INDEX worker_grant_worker ON actlog.worker_grant (worker_id);

COMMENT ON TABLE actlog.worker_grant IS 'How much of the limits of models and tools is each worker''s own. It is until another worker declares the worker dead.';
COMMENT ON COLUMN actlog.worker_grant.limit_name IS 'model:NAME or tools:PATTERN, and after a slash maxConcurrent, maxPerMinute or tokensPerMinute.';
COMMENT ON COLUMN actlog.worker_grant.worker_id IS 'The worker.';
COMMENT ON COLUMN actlog.worker_grant.units IS 'How many calls, or tokens, are its own. All workers together have no more than the limit.';
COMMENT ON COLUMN actlog.worker_grant.wanted IS 'How many it used or waited for when it last asked.';
COMMENT ON COLUMN actlog.worker_grant.lasting IS 'Whether what is used counts for a minute, also that of a worker that is gone.';
COMMENT ON COLUMN actlog.worker_grant.most IS 'The limit, as the worker knows it.';
COMMENT ON COLUMN actlog.worker_grant.round IS 'How often the worker had asked. What it asked earlier and arrives later changes nothing.';
COMMENT ON COLUMN actlog.worker_grant.turn IS 'Counts when workers got more: who got it longest ago comes first.';
COMMENT ON COLUMN actlog.worker_grant.grown_at IS 'When it last got more.';

SELECT actlog.compress_texts('actlog.worker_grant'::regclass);

-- +goose Down

DROP TABLE actlog.worker_grant;
