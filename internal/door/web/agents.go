package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/view/words"
)

// agentsView is what can be run, as a page shows it.
type agentsView struct {
	agents    []catalog.Agent
	tools     []catalog.Tool
	servers   []catalog.Server
	models    []catalog.Model
	executors []catalog.Executor
	mayStart  bool
}

func (s *Server) agents(c echo.Context) error {
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}

	v := &agentsView{mayStart: httpd.May(c, httpd.ScopeRun)}
	if r := s.runtime.Runnable; r != nil {
		if err := v.read(c.Request().Context(), r); err != nil {
			return err
		}
	}
	return send(c, http.StatusOK, agentsPage(v))
}

func (v *agentsView) read(ctx context.Context, r *catalog.Catalog) (err error) {
	if v.agents, err = r.Agents(ctx); err != nil {
		return err
	}
	if v.tools, v.servers, err = r.Tools(ctx); err != nil {
		return err
	}
	if v.models, err = r.Models(ctx); err != nil {
		return err
	}
	v.executors, err = r.Executors(ctx)
	return err
}

func agentStart(name string) string {
	return startPath(&engine.Startable{Executor: "agent", Name: name})
}

// agentFacts say in short what an agent is.
func agentFacts(a *catalog.Agent) (facts []string) {
	add := func(name string, values ...string) {
		if text := strings.Join(values, ", "); text != "" {
			facts = append(facts, name+": "+text)
		}
	}

	if a.Model != nil {
		add("model", a.Model.Name+" ("+a.Model.Model+")")
	}
	add("tools", a.Tools...)
	add("MCP servers", a.MCPServers...)
	add("agents", a.SubAgents...)
	add("limits", limitsOf(a)...)

	if a.Version != nil {
		add("version", fmt.Sprint(*a.Version))
	}
	if !a.Configured {
		facts = append(facts, "not configured on this server")
	}
	return append(facts, liveWorkers(a.Workers))
}

func limitsOf(a *catalog.Agent) (limits []string) {
	l := a.Limits
	for _, each := range []struct {
		most int64
		of   string
	}{{int64(a.MaxSteps), "step"}, {l.Rounds, "round"}, {l.ToolCalls, "tool call"}, {l.Tokens, "token"}} {
		if each.most > 0 {
			limits = append(limits, words.Plural(each.most, each.of))
		}
	}

	if l.CostUSD > 0 {
		limits = append(limits, words.Dollars(l.CostUSD))
	}
	if l.Seconds > 0 {
		limits = append(limits, words.Duration(time.Duration(l.Seconds*float64(time.Second))))
	}
	return limits
}

func liveWorkers(n int) string {
	if n == 0 {
		return "no live worker"
	}
	return words.Plural(int64(n), "live worker")
}

// toolFacts say in short how a tool may be called.
func toolFacts(t *catalog.Tool) (facts []string) {
	if t.Policy.Writes {
		facts = append(facts, "writes")
	}
	if t.Policy.Approval {
		facts = append(facts, "needs approval")
	}
	if t.Policy.Timeout > 0 {
		facts = append(facts, "time-out "+t.Policy.Timeout.String())
	}
	return append(facts, users(t.UsedBy))
}

func users(agents []string) string {
	if len(agents) == 0 {
		return "used by nobody"
	}
	return "used by " + strings.Join(agents, ", ")
}

func modelFacts(m *catalog.Model) (facts []string) {
	if m.Configured {
		facts = append(facts, m.Provider+" "+m.Model)
		if m.Host != "" {
			facts = append(facts, "at "+m.Host)
		}
		if !m.Priced {
			facts = append(facts, "price not known")
		}
		if m.MaxConcurrent > 0 {
			facts = append(facts, fmt.Sprintf("at most %d requests at a time", m.MaxConcurrent))
		}
	} else {
		facts = append(facts, "not configured on this server")
	}
	return append(facts, liveWorkers(m.Workers))
}
