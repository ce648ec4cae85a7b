package api_test

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
)

const (
	details        = apitest.DetailsPath
	agentExecution = apitest.StepPath
)

var (
	plan, subPlan           = apitest.Plan, apitest.SubPlan
	step, cycle             = apitest.Step, apitest.Cycle
	tool, wait              = apitest.Tool, apitest.Wait
	thought                 = apitest.Thought
	artifact, source        = apitest.Artifact, apitest.Source
	state, at               = apitest.State, apitest.At
	lookup, expect          = apitest.Lookup, apitest.Expect
	wantStatus, wantProblem = apitest.WantStatus, apitest.WantProblem
	contract                = apitest.TheContract
)

// client is a client with the requests that only tests of this package send.
type client struct{ *apitest.Client }

func serve(t testing.TB) *client {
	t.Helper()
	return &client{apitest.Serve(t)}
}

func serveWith(t testing.TB, o options) *client {
	t.Helper()
	return &client{apitest.ServeWith(t, o)}
}
