package api

import (
	"reflect"

	"github.com/labstack/echo/v4"
)

// For tests that hold the server and its contract together.

var OpenAPI = openAPI

// Answers are the types of answers, by the names of their schemas.
var Answers = map[string]reflect.Type{
	"Plan":     reflect.TypeFor[planJSON](),
	"Step":     reflect.TypeFor[stepJSON](),
	"Cycle":    reflect.TypeFor[cycleJSON](),
	"ToolCall": reflect.TypeFor[toolCallJSON](),
	"Figures":  reflect.TypeFor[figuresJSON](),
	"Wait":     reflect.TypeFor[waitJSON](),
	"PlanItem": reflect.TypeFor[planItemJSON](),
	"PlanList": reflect.TypeFor[planListJSON](),
	"Limits":   reflect.TypeFor[limitsJSON](),
	"Problem":  reflect.TypeFor[problem](),
}

func Routes(s *Server) []*echo.Route { return s.echo.Routes() }
