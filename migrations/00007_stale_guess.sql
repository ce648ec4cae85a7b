-- An error of its own for writes that wrongly assumed where a plan or cycle is on record.

-- +goose Up

-- It is volatile; otherwise Postgres would call it while it plans the statement.
-- +goose StatementBegin
CREATE FUNCTION actlog.stale_guess(reason text) RETURNS date LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'actlog: %; the write is repeated without assuming it', reason
        USING ERRCODE = 'YA001', HINT = 'This costs one more round trip and is no error of the client.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.stale_guess(text) IS
    'Fails with SQLSTATE YA001: a server remembered where a plan or a cycle is on record, and it is not there any more. The server repeats the write.';

-- +goose Down

DROP FUNCTION actlog.stale_guess(text);
