-- Jobs that ask many runs for the same thing.

-- +goose Up

CREATE TABLE actlog.bulk (
    bulk_id          text COLLATE "C" PRIMARY KEY,
    action           text NOT NULL,
    filter           json NOT NULL,
    limits           json,
    rate             double precision NOT NULL,
    state            text NOT NULL DEFAULT 'RUNNING',
    starter          text COLLATE "C" NOT NULL,
    claimed_by       text,
    idempotency_key  text COLLATE "C",
    request_sha256   text COLLATE "C",
    created_at       timestamptz NOT NULL DEFAULT now(),
    due_at           timestamptz DEFAULT now(),
    ended_at         timestamptz,
    CONSTRAINT bulk_action CHECK (action = ANY ('{RETRY,AGAIN,STOP}')),
    CONSTRAINT bulk_state CHECK (state = ANY ('{RUNNING,COMPLETED,CANCELLED}')),
    CONSTRAINT bulk_rate CHECK (rate >= 0.001)
);
CREATE UNIQUE INDEX bulk_request ON actlog.bulk (idempotency_key, starter) WHERE idempotency_key IS NOT NULL;
CREATE INDEX bulk_due ON actlog.bulk (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE actlog.bulk_run (
    bulk_id     text COLLATE "C" NOT NULL REFERENCES actlog.bulk (bulk_id) ON DELETE CASCADE,
    place       integer NOT NULL,
    plan_id     text COLLATE "C" NOT NULL,
    handled_at  timestamptz,
    error       text,
    PRIMARY KEY (bulk_id, place)
);
CREATE INDEX bulk_run_open ON actlog.bulk_run (bulk_id, place) WHERE handled_at IS NULL;

COMMENT ON TABLE actlog.bulk IS 'Jobs that ask many runs for the same thing, each once.';
COMMENT ON COLUMN actlog.bulk.bulk_id IS 'The job.';
COMMENT ON COLUMN actlog.bulk.action IS 'What it asks for: RETRY, AGAIN or STOP.';
COMMENT ON COLUMN actlog.bulk.filter IS 'Which runs it asked for. Those that matched when it started are in bulk_run.';
COMMENT ON COLUMN actlog.bulk.limits IS 'The limits that replace those of the runs; null: none do.';
COMMENT ON COLUMN actlog.bulk.rate IS 'How many runs a second it asks.';
COMMENT ON COLUMN actlog.bulk.state IS 'RUNNING, COMPLETED, or CANCELLED: somebody stopped it.';
COMMENT ON COLUMN actlog.bulk.starter IS 'Who started it, as the server knows them; empty: not known.';
COMMENT ON COLUMN actlog.bulk.claimed_by IS 'Who started it, as they said themselves.';
COMMENT ON COLUMN actlog.bulk.idempotency_key IS 'The key of the request, which starts one job; null: none.';
COMMENT ON COLUMN actlog.bulk.request_sha256 IS 'The hash of the body of that request, in hex digits.';
COMMENT ON COLUMN actlog.bulk.created_at IS 'When it was started.';
COMMENT ON COLUMN actlog.bulk.due_at IS 'When it asks the next runs; null: it has ended.';
COMMENT ON COLUMN actlog.bulk.ended_at IS 'When it ended; null until then.';
COMMENT ON TABLE actlog.bulk_run IS 'The runs of a job.';
COMMENT ON COLUMN actlog.bulk_run.bulk_id IS 'The job.';
COMMENT ON COLUMN actlog.bulk_run.place IS 'Its place in the job, from 1.';
COMMENT ON COLUMN actlog.bulk_run.plan_id IS 'The plan of the run.';
COMMENT ON COLUMN actlog.bulk_run.handled_at IS 'When it was asked; null: not yet.';
COMMENT ON COLUMN actlog.bulk_run.error IS 'Why it did not do what it was asked for; null: it did.';

SELECT actlog.compress_texts('actlog.bulk'), actlog.compress_texts('actlog.bulk_run');

-- +goose Down

DROP TABLE actlog.bulk_run, actlog.bulk;
