-- What upkeep replaces when it marks a silent run INTERRUPTED, so that a sign of life undoes the mark.

-- +goose Up

CREATE TABLE actlog.interrupted (
    root_plan_id  text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    step_id       text COLLATE "C" NOT NULL,
    seq           integer NOT NULL,
    id            text COLLATE "C" NOT NULL,
    attempt       integer,
    told_state    text,
    error_kind    text,
    end_time      timestamptz,
    marked_end    timestamptz,
    PRIMARY KEY (root_plan_id, kind, step_id, seq, id)
);
COMMENT ON TABLE actlog.interrupted IS 'What upkeep replaced in the rows of silent runs when it marked them INTERRUPTED with the error kind not_seen. A later sign of life puts it back.';
COMMENT ON COLUMN actlog.interrupted.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.interrupted.kind IS 'The kind of the row: plan, agentExecution, thinkAct or actTool.';
COMMENT ON COLUMN actlog.interrupted.step_id IS 'The step of a row; empty for a plan.';
COMMENT ON COLUMN actlog.interrupted.seq IS 'The cycle of a row; 0 for a plan or a step.';
COMMENT ON COLUMN actlog.interrupted.id IS 'The id of a plan or a tool call; else empty.';
COMMENT ON COLUMN actlog.interrupted.attempt IS 'The attempt that was marked; null: the first.';
COMMENT ON COLUMN actlog.interrupted.told_state IS 'The state that was replaced; null: none had been written.';
COMMENT ON COLUMN actlog.interrupted.error_kind IS 'The error kind that was replaced.';
COMMENT ON COLUMN actlog.interrupted.end_time IS 'The end that was replaced.';
COMMENT ON COLUMN actlog.interrupted.marked_end IS 'The end that the mark wrote: the last heartbeat of the run.';
SELECT actlog.compress_texts('actlog.interrupted');

-- +goose Down

DROP TABLE actlog.interrupted;
