package upkeep_test

import (
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open opens the record and starts the upkeep with default settings, which adds partitions.
func open(t testing.TB, url string, options ...func(*store.Config)) *store.Store {
	t.Helper()
	s := storetest.OpenURL(t, url, options...)
	storetest.Upkeep(t, s, upkeep.Config{})
	return s
}

// openLogged is open with a log.
func openLogged(t testing.TB, url string, log *storetest.Log, options ...func(*store.Config)) *store.Store {
	t.Helper()
	s := storetest.OpenURL(t, url, append(options, logTo(log))...)
	storetest.Upkeep(t, s, upkeep.Config{Logger: log.Logger()})
	return s
}

func logTo(log *storetest.Log) func(*store.Config) {
	return func(c *store.Config) { c.Logger = log.Logger() }
}

// idle returns an Upkeep that does nothing by itself.
func idle(t testing.TB, s *store.Store, options ...func(*upkeep.Config)) *upkeep.Upkeep {
	t.Helper()
	config := upkeep.Config{Logger: storetest.Logger(t)}
	for _, o := range options {
		o(&config)
	}
	return upkeep.Idle(s, config)
}
