package receive_test

import (
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Short names for what the tests of this package use all the time.

type (
	obj     = apitest.Obj
	options = apitest.Options
	client  = apitest.Client
)

var (
	serve, serveWith       = apitest.Serve, apitest.ServeWith
	lookup, expect         = apitest.Lookup, apitest.Expect
	wantStatus             = apitest.WantStatus
	wantTaken, wantRefused = apitest.WantTaken, apitest.WantRefused
)
