-- Models that do not answer. A run that asked one in vain lets go of its worker, and goes on when the model is back.

-- +goose Up

-- The runs refer to plans. A transaction that creates them locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

CREATE TABLE actlog.model_away (
    model          text COLLATE "C" PRIMARY KEY,
    since          timestamptz NOT NULL,
    error_kind     text NOT NULL,
    error_message  text NOT NULL,
    probes         integer NOT NULL DEFAULT 0,
    probe_at       timestamptz NOT NULL
);

COMMENT ON TABLE actlog.model_away IS 'Models that do not answer. One run after the other asks whether one is back.';
COMMENT ON COLUMN actlog.model_away.model IS 'Its name in the configuration.';
COMMENT ON COLUMN actlog.model_away.since IS 'When a request to it first failed.';
COMMENT ON COLUMN actlog.model_away.error_kind IS 'The kind of the last error, such as network.';
COMMENT ON COLUMN actlog.model_away.error_message IS 'What the last error said.';
COMMENT ON COLUMN actlog.model_away.probes IS 'How often it was asked in vain since it is away.';
COMMENT ON COLUMN actlog.model_away.probe_at IS 'When it is asked next.';

CREATE TABLE actlog.model_wait (
    root_plan_id   text COLLATE "C" NOT NULL,
    plan_id        text COLLATE "C" NOT NULL,
    model          text COLLATE "C" NOT NULL,
    since          timestamptz NOT NULL,
    error_kind     text NOT NULL,
    error_message  text NOT NULL,
    alone          boolean NOT NULL,
    asks           boolean NOT NULL DEFAULT false,
    PRIMARY KEY (root_plan_id, plan_id, model),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.run (root_plan_id, plan_id) ON DELETE CASCADE
);
CREATE INDEX model_wait_model ON actlog.model_wait (model);

COMMENT ON TABLE actlog.model_wait IS 'Runs that wait until a model answers again, also while they ask it.';
COMMENT ON COLUMN actlog.model_wait.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.model_wait.plan_id IS 'The run.';
COMMENT ON COLUMN actlog.model_wait.model IS 'The name of the model in the configuration.';
COMMENT ON COLUMN actlog.model_wait.since IS 'When the first request of the run to it failed, or when the run learned that it is away.';
COMMENT ON COLUMN actlog.model_wait.error_kind IS 'The kind of the last error, such as network.';
COMMENT ON COLUMN actlog.model_wait.error_message IS 'What the last error said.';
COMMENT ON COLUMN actlog.model_wait.alone IS 'Whether the model answers others, so that it is not away. The run asks again by itself.';
COMMENT ON COLUMN actlog.model_wait.asks IS 'Whether it is the turn of this run to ask if the model is back.';

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.model_away,actlog.model_wait}'::text[]) AS t;

-- +goose Down

DROP TABLE actlog.model_wait, actlog.model_away;
