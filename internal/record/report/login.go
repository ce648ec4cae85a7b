package report

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/internal/record/pg"
)

// Logins in a Postgres that is the server's own.
const (
	login  = "actlog_sql"  // for statements of assistants
	reader = "actlog_psql" // for a person
)

// Login makes a role that may read the reports, in a Postgres that is the server's own, and returns the URL with which
// it logs in. owner is the URL of a superuser. The password is a new one each time, and is kept nowhere.
func Login(ctx context.Context, owner string) (string, error) {
	return makeLogin(ctx, owner, login, rand.Text(), limits)
}

// Reader is Login for a person at psql, without limits of time and space. The password is the same for the same owner,
// so that a session may log in again while others begin.
func Reader(ctx context.Context, owner string) (string, error) {
	at, err := url.Parse(owner)
	if err != nil {
		return "", errors.New("make a login for psql: the URL of the database cannot be read") // the error has the password
	}

	secret, _ := at.User.Password() // empty in tests, which trust everyone
	password := hmac.New(sha256.New, []byte(secret))
	password.Write([]byte(reader))
	return makeLogin(ctx, owner, reader, hex.EncodeToString(password.Sum(nil)), "")
}

func makeLogin(ctx context.Context, owner, role, password, limits string) (_ string, err error) {
	at, err := url.Parse(owner)
	if err != nil {
		// the error has the password
		return "", errors.New("make a login for reports: the URL of the database cannot be read")
	}
	config, err := pgconn.ParseConfig(owner)
	if err != nil {
		return "", fmt.Errorf("make a login for reports: %w", err)
	}

	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return "", fmt.Errorf("make a login for reports: %w", pg.Translate(err))
	}
	defer func() { err = errors.Join(err, connection{c}.close()) }()

	// The names and the password hold nothing that must be quoted. The statements are one transaction.
	made := strings.NewReplacer("ROLE_NAME", role, "PASSWORD_TEXT", password).Replace(loginSQL + limits)
	if err := c.Exec(ctx, made).Close(); err != nil {
		return "", fmt.Errorf("make a login for reports: %w", pg.Translate(err))
	}
	at.User = url.UserPassword(role, password)
	return at.String(), nil
}

// ErrNotGranted means that a login may not act as [Role].
var ErrNotGranted = errors.New("this login may not act as " + Role + ", which reads the reports")

// MayRead returns an error unless the login of a URL may act as [Role]. Unless it wraps [ErrNotGranted], that could not
// be found out.
func MayRead(ctx context.Context, databaseURL string) (err error) {
	config, err := pgconn.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("act as " + Role + ": the URL of the database cannot be read") // the error has the password
	}
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("act as %s: %w", Role, pg.Translate(err))
	}
	defer func() { err = errors.Join(err, connection{c}.close()) }()

	err = c.Exec(ctx, "SET ROLE "+Role).Close()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("%w (%s)", ErrNotGranted, refused.Message)
	}
	return err
}

// loginSQL makes the role, in one program at a time, or gives the one that is there a new password. Functions that
// Postgres lets everybody call are taken from everybody but superusers where they reach beyond a statement: advisory
// locks, which the server uses, too, and which are few; messages in the write-ahead log; settings.
const loginSQL = `SELECT pg_advisory_xact_lock(hashtextextended('logins of actlog', 0));
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ROLE_NAME') THEN
        CREATE ROLE ROLE_NAME;
    END IF;
END
$$;
ALTER ROLE ROLE_NAME LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 8 PASSWORD 'PASSWORD_TEXT';
GRANT ` + Role + ` TO ROLE_NAME;
ALTER ROLE ROLE_NAME SET default_transaction_read_only = on;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT oid FROM pg_proc AS p
        WHERE pronamespace = 'pg_catalog'::regnamespace
            AND (proname LIKE 'pg%\_advisory\_%' OR proname IN ('pg_logical_emit_message', 'set_config'))
            AND has_function_privilege('ROLE_NAME', oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END
$$;
`

// limits are for statements that no person waits for.
const limits = `ALTER ROLE ROLE_NAME SET statement_timeout = '1min';
ALTER ROLE ROLE_NAME SET temp_file_limit = '1GB';
`
