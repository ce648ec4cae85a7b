package otlp

import (
	"cmp"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/loosejson"
	"github.com/actlog/actlog/record"
)

// context is what a span says of the run that it is part of: for whom, and where.
type context struct {
	conversation, user, environment, release, project string
	// service is the name of the program, which is the project of a run that names none.
	service   string
	startedBy record.StartedBy
	tags      []string
	metadata  bool // there is some, see appendMetadata
}

// contextOf returns the context that a span tells, and after it the log records in it. The one before is returned
// if it is the same.
func contextOf(s *Span, logs Attributes, f *Facts, before *context) *context {
	c := context{
		conversation: f.Conversation, user: f.User, tags: f.Tags, metadata: len(appendMetadata([]byte{'{'}, s)) > 1,
	}

	for _, resource := range []Attributes{s.Resource, logs} {
		fill(&c.environment, resource, "deployment.environment.name", "deployment.environment")
		fill(&c.release, resource, "service.version")
		fill(&c.project, resource, "actlog.project", "openinference.project.name")
		fill(&c.conversation, resource, "gen_ai.conversation.id", "session.id")
		fill(&c.user, resource, "user.id", "enduser.id")
		c.service = cmp.Or(c.service, serviceOf(resource))
	}
	for _, said := range []Attributes{s.Attributes, s.Resource, logs} {
		if c.startedBy.PlanID == "" {
			c.startedBy = record.StartedBy{
				PlanID: said.Get("actlog.started_by.plan_id"), ToolCallID: said.Get("actlog.started_by.tool_call_id"),
			}
		}
	}

	if before != nil && c.equals(before) {
		return before
	}
	return &c
}

// serviceOf returns the name of the program that a resource is of, "" if it has none. SDKs call a program without
// a name unknown_service, some with the name of what runs it: unknown_service:python.
func serviceOf(resource Attributes) string {
	const unnamed = "unknown_service"
	name := strings.TrimSpace(resource.Get("service.name"))
	if name == unnamed || strings.HasPrefix(name, unnamed+":") {
		return ""
	}
	return name
}

func (c *context) equals(o *context) bool {
	return c.conversation == o.conversation && c.user == o.user && c.environment == o.environment &&
		c.release == o.release &&
		c.project == o.project && c.service == o.service && c.startedBy == o.startedBy && c.metadata == o.metadata &&
		slices.Equal(c.tags, o.tags)
}

// fillFrom adds what is not known yet.
func (c *context) fillFrom(o *context) {
	for _, gap := range []struct{ to, from *string }{
		{&c.conversation, &o.conversation}, {&c.user, &o.user}, {&c.environment, &o.environment},
		{&c.release, &o.release}, {&c.project, &o.project}, {&c.service, &o.service},
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
		if value := v.Append(nil); key != "" && len(value) > 0 && !seen[key] && len(seen) < 100 {
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
			put(key, Value{Type: JSON, Text: loosejson.Quoted(value)})
		}
	}

	for _, prefix := range []string{
		"ai.telemetry.metadata.", "langfuse.trace.metadata.", "traceloop.association.properties.",
	} {
		for _, a := range s.Attributes.WithPrefix(prefix) {
			put(a.Key[len(prefix):], a.Value)
		}
	}
	return b
}
