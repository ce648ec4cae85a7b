package api

import (
	"context"
	"reflect"
	"testing"

	"github.com/labstack/echo/v4"
)

// For tests that hold the server and its contract together.

const MaxReceiving = maxReceiving

var OpenAPI = openAPI

// Answers are the types of answers, by the names of their schemas.
var Answers = map[string]reflect.Type{
	"Plan":      reflect.TypeFor[planJSON](),
	"Step":      reflect.TypeFor[stepJSON](),
	"Cycle":     reflect.TypeFor[cycleJSON](),
	"ToolCall":  reflect.TypeFor[toolCallJSON](),
	"Figures":   reflect.TypeFor[figuresJSON](),
	"Wait":      reflect.TypeFor[waitJSON](),
	"PlanItem":  reflect.TypeFor[planItemJSON](),
	"EventPlan": reflect.TypeFor[planEventJSON](),
	"PlanList":  reflect.TypeFor[pageJSON[planItemJSON]](),

	"Thought":      reflect.TypeFor[thoughtJSON](),
	"ThoughtList":  reflect.TypeFor[pageJSON[thoughtJSON]](),
	"Artifact":     reflect.TypeFor[artifactJSON](),
	"ArtifactList": reflect.TypeFor[pageJSON[artifactJSON]](),
	"Source":       reflect.TypeFor[sourceJSON](),
	"SourceList":   reflect.TypeFor[pageJSON[sourceJSON]](),
	"WaitItem":     reflect.TypeFor[waitItemJSON](),
	"WaitList":     reflect.TypeFor[pageJSON[waitItemJSON]](),

	"Limits":  reflect.TypeFor[limitsJSON](),
	"Problem": reflect.TypeFor[problem](),
}

func Routes(s *Server) []*echo.Route { return s.echo.Routes() }

// Handle adds a route, for what no handler of ours does.
func Handle(s *Server, path string, h echo.HandlerFunc) { s.handle("GET", path, ScopeRead, h) }

// BodyBytes is what is held of request bodies.
func BodyBytes(s *Server) int64 { return s.bodies.used.Load() }

// CloseStore ends what the server answers from.
func CloseStore(t testing.TB, s *Server) {
	t.Helper()
	if err := s.store.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// MaxExports is how many exports there may be at once.
const MaxExports = maxExports

// Exports is how many there are.
func Exports(s *Server) int { return len(s.exports) }

// FillBodies makes the server hold as many bodies as it can.
func FillBodies(s *Server) { s.bodies.used.Store(s.bodies.size) }

// What answers are encoded with.
var (
	AppendJSON = appendJSON
	OrNull     = orNull
)
