package store_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// pooler forwards connections as PgBouncer does in session mode, and returns its address. It drops
// most of the parameters that a client sends when it connects.
func pooler(t *testing.T, config *pgx.ConnConfig) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	network, server := "tcp", net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	if strings.HasPrefix(config.Host, "/") {
		network, server = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}

	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer client.Close()
				first, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage()
				if err != nil {
					t.Errorf("the first message: %v", err)
					return
				}

				if start, ok := first.(*pgproto3.StartupMessage); ok { // else it cancels a statement
					maps.DeleteFunc(start.Parameters, func(name, _ string) bool {
						return !slices.Contains([]string{
							"user", "database", "application_name", "client_encoding", "datestyle", "TimeZone",
						}, name)
					})
				}

				up, err := new(net.Dialer).DialContext(context.Background(), network, server)
				if err != nil {
					t.Error(err)
					return
				}
				defer up.Close()

				front := pgproto3.NewFrontend(up, up)
				front.Send(first)
				if err := front.Flush(); err != nil {
					t.Error(err)
					return
				}
				all.Go(func() {
					_, _ = io.Copy(up, client)
					_ = up.Close()
				})
				_, _ = io.Copy(client, up)
			})
		}
	})

	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}

// TestPoolerDropsSettings checks that the store logs a warning for each setting that a pooler does
// not forward, and none if the role has these settings.
func TestPoolerDropsSettings(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	name, roleURL := role(t, db)
	execSQL(t, db.Pool, "GRANT USAGE, CREATE ON SCHEMA actlog TO "+name+
		"; GRANT SELECT ON ALL TABLES IN SCHEMA actlog TO "+name)

	config, err := pgx.ParseConfig(roleURL)
	if err != nil {
		t.Fatal(err)
	}
	through := (&url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Host: pooler(t, config),
		Path: "/" + config.Database, RawQuery: "sslmode=disable",
	}).String()

	var warned storetest.Log
	storetest.OpenURL(t, through, func(c *store.Config) { c.Logger = warned.Logger() })
	for _, setting := range []string{
		"enable_hashjoin", "enable_material", "enable_mergejoin", "enable_seqscan", "jit", "lock_timeout", "plan_cache_mode",
		"client_min_messages",
	} {
		if !strings.Contains(warned.String(), setting) {
			t.Errorf("no warning for %s:\n%s", setting, &warned)
		}
	}

	for _, set := range []string{
		"jit = off", "plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_hashjoin = off",
		"enable_mergejoin = off", "enable_material = off", "lock_timeout = '2s'", "client_min_messages = warning",
	} {
		execSQL(t, db.Pool, "ALTER ROLE "+name+" SET "+set)
	}

	var quiet storetest.Log
	storetest.OpenURL(t, through, func(c *store.Config) { c.Logger = quiet.Logger() })
	if w := quiet.String(); w != "" {
		t.Errorf("warnings although the role has the settings:\n%s", w)
	}
}
