package report

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/internal/pg"
)

// login is the role that [Login] makes.
const login = "actlog_sql"

// Login makes a role that may read the reports, in a Postgres that is the server's own, and returns the URL with which it logs in.
// owner is the URL of a superuser. The password is a new one each time, and is kept nowhere.
func Login(ctx context.Context, owner string) (string, error) { return makeLogin(ctx, owner, login) }

func makeLogin(ctx context.Context, owner, role string) (_ string, err error) {
	at, err := url.Parse(owner)
	if err != nil {
		return "", errors.New("make a login for reports: the URL of the database cannot be read") // the error has the password
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
	password := rand.Text()
	// The names and the password hold nothing that must be quoted. The statements are one transaction.
	made := strings.NewReplacer("ROLE_NAME", role, "PASSWORD_TEXT", password).Replace(loginSQL)
	if err := c.Exec(ctx, made).Close(); err != nil {
		return "", fmt.Errorf("make a login for reports: %w", pg.Translate(err))
	}
	at.User = url.UserPassword(role, password)
	return at.String(), nil
}

// loginSQL makes the role, or gives the one that is there a new password. Functions that Postgres lets everybody call are taken
// from everybody but superusers where they reach beyond a statement: advisory locks, which the server uses, too, and which are few;
// messages in the write-ahead log; settings.
const loginSQL = `DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ROLE_NAME') THEN
        CREATE ROLE ROLE_NAME;
    END IF;
END
$$;
ALTER ROLE ROLE_NAME LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 8 PASSWORD 'PASSWORD_TEXT';
GRANT ` + granted + ` TO ROLE_NAME;
ALTER ROLE ROLE_NAME SET default_transaction_read_only = on;
ALTER ROLE ROLE_NAME SET statement_timeout = '1min';
ALTER ROLE ROLE_NAME SET temp_file_limit = '1GB';
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
$$`
