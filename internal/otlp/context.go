package otlp

import (
	"cmp"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/loosejson"
	"github.com/actlog/actlog/record"
)

// context is what a span says of the run that it is part of: for whom, and where.
type context struct {
	conversation, user, environment, release, project string
	startedBy                                         record.StartedBy
	tags                                              []string
	metadata                                          bool // there is some, see appendMetadata
}

// contextOf returns the context that a span tells. The one before is returned if it is the same.
func contextOf(s *Span, f *Facts, before *context) *context {
	c := context{conversation: f.Conversation, user: f.User, tags: f.Tags, metadata: len(appendMetadata([]byte{'{'}, s)) > 1}
	fill(&c.environment, s.Resource, "deployment.environment.name", "deployment.environment")
	fill(&c.release, s.Resource, "service.version")
	fill(&c.project, s.Resource, "actlog.project", "openinference.project.name")
	for _, said := range []Attributes{s.Attributes, s.Resource} {
		if c.startedBy.PlanID == "" {
			c.startedBy = record.StartedBy{PlanID: said.Get("actlog.started_by.plan_id"), ToolCallID: said.Get("actlog.started_by.tool_call_id")}
		}
	}
	if before != nil && c.equals(before) {
		return before
	}
	return &c
}

func (c *context) equals(o *context) bool {
	return c.conversation == o.conversation && c.user == o.user && c.environment == o.environment && c.release == o.release &&
		c.project == o.project && c.startedBy == o.startedBy && c.metadata == o.metadata && slices.Equal(c.tags, o.tags)
}

// fillFrom adds what is not known yet.
func (c *context) fillFrom(o *context) {
	for _, gap := range []struct{ to, from *string }{
		{&c.conversation, &o.conversation}, {&c.user, &o.user}, {&c.environment, &o.environment},
		{&c.release, &o.release}, {&c.project, &o.project},
	} {
		*gap.to = cmp.Or(*gap.to, *gap.from)
	}
	if c.startedBy.PlanID == "" {
		c.startedBy = o.startedBy
	}
	if c.tags == nil {
		c.tags = o.tags
	}
	c.metadata = c.metadata || o.metadata
}

// appendMetadata adds to a JSON object what a span says about its run and its instrumentation.
func appendMetadata(b []byte, s *Span) []byte {
	seen := map[string]bool{}
	put := func(key string, v Value) {
		v.Text = clean(v.Text)
		if value := v.append(nil); key != "" && len(value) > 0 && !seen[key] && len(seen) < 100 {
			seen[key] = true
			b = append(appendName(b, clean(key)), value...)
		}
	}
	if service := s.Resource.Get("service.name"); service != "" {
		put("service", Value{Text: service})
	}
	if scope := strings.TrimSpace(s.Scope.Name + " " + s.Scope.Version); scope != "" {
		put("instrumentation", Value{Text: scope})
	}
	if v := s.Attributes.Get("metadata"); isJSON(v) {
		for key, value := range members(v) {
			put(key, Value{JSON, loosejson.Quoted(value)})
		}
	}
	for _, prefix := range []string{"ai.telemetry.metadata.", "langfuse.trace.metadata.", "traceloop.association.properties."} {
		for _, a := range s.Attributes.withPrefix(prefix) {
			put(a.Key[len(prefix):], a.Value)
		}
	}
	return b
}
