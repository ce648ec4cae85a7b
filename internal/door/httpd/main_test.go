package httpd_test

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
	answer  = apitest.Answer
)

const details = apitest.DetailsPath

var (
	serve, serveWith        = apitest.Serve, apitest.ServeWith
	plan, step              = apitest.Plan, apitest.Step
	expect                  = apitest.Expect
	wantStatus, wantProblem = apitest.WantStatus, apitest.WantProblem
	wantRefused             = apitest.WantRefused
)
