package recorder

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// LinkHeader is the HTTP header in which a link travels.
const LinkHeader = "Actlog-Link"

// MaxLinkBytes bounds the text of a link. The longest that [Link.String] makes fits.
const MaxLinkBytes = 4096

// Link says where in the record a piece of work belongs. It travels in a context, and as text in a
// header, an environment variable or a message. StepID is empty outside a step. ToolCallID is
// empty outside a tool call; Seq is the cycle of the tool call and means nothing without one.
type Link struct {
	RootPlanID string
	PlanID     string
	StepID     string
	Seq        int64
	ToolCallID string
	// Project is the plan's, for sub-plans to inherit; empty if it has none.
	Project string
}

type linkKey struct{}

// ContextWithLink returns a context that carries the link. The zero Link removes the one that ctx
// carries: a plan started with that context is a root plan.
func ContextWithLink(ctx context.Context, link Link) context.Context {
	return context.WithValue(ctx, linkKey{}, link)
}

// LinkFrom returns the link that ctx carries; ok is false if there is none.
func LinkFrom(ctx context.Context) (link Link, ok bool) {
	link, _ = ctx.Value(linkKey{}).(Link)
	return link, link != Link{}
}

// String returns the link as text for [ParseLink]: printable ASCII without spaces, quotes, commas
// and semicolons, at most [MaxLinkBytes] bytes for a valid link. For the zero Link it returns "".
func (l Link) String() string {
	if (l == Link{}) {
		return ""
	}

	v := url.Values{"root": {l.RootPlanID}, "plan": {l.PlanID}}
	if l.StepID != "" {
		v.Set("step", l.StepID)
	}
	if l.ToolCallID != "" {
		v.Set("seq", strconv.FormatInt(l.Seq, 10))
		v.Set("tool", l.ToolCallID)
	}
	if l.Project != "" {
		v.Set("project", field.Shorten(l.Project, record.MaxIDBytes))
	}
	return v.Encode()
}

// ParseLink reads what [Link.String] wrote. It ignores members that it does not know, so that a
// newer writer can add some. The error is an [*record.InvalidError].
func ParseLink(s string) (Link, error) {
	if len(s) > MaxLinkBytes {
		return Link{}, invalidLink("must be at most %d bytes, not %d", MaxLinkBytes, len(s))
	}

	v, err := url.ParseQuery(s)
	if err != nil {
		return Link{}, invalidLink("is malformed: %s", err)
	}
	for _, name := range []string{"root", "plan", "step", "seq", "tool", "project"} {
		if len(v[name]) > 1 {
			return Link{}, invalidLink("names %s twice", name)
		}
	}

	l := Link{
		RootPlanID: v.Get("root"), PlanID: v.Get("plan"), StepID: v.Get("step"), ToolCallID: v.Get("tool"),
		Project: v.Get("project"),
	}
	if seq := v.Get("seq"); seq != "" {
		if l.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil {
			return Link{}, invalidLink("holds the seq %.40q, which is no number", seq)
		}
	}

	if err := l.check(); err != nil {
		return Link{}, err
	}
	if l.ToolCallID == "" {
		l.Seq = 0 // it means nothing here, and each link has one text only
	}
	return l, nil
}

// Inject writes the link of ctx into the header of a request. If ctx has no link it removes the
// header, so that none is passed on by mistake.
func Inject(ctx context.Context, header http.Header) {
	if link, ok := LinkFrom(ctx); ok {
		header.Set(LinkHeader, link.String())
	} else {
		header.Del(LinkHeader)
	}
}

// Extract returns a context that carries the link of a received header. It returns ctx if there is
// none. If the link is malformed it returns ctx and an error that wraps an
// [*record.InvalidError]. A client that may send the header can hang plans under the record of
// others: accept it from trusted callers only.
func Extract(ctx context.Context, header http.Header) (context.Context, error) {
	values := header.Values(LinkHeader)
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return ctx, nil
	}
	if len(values) > 1 {
		return ctx, fmt.Errorf("read header %s: %w", LinkHeader, invalidLink("appears %d times", len(values)))
	}

	link, err := ParseLink(values[0])
	if err != nil {
		return ctx, fmt.Errorf("read header %s: %w", LinkHeader, err)
	}
	return ContextWithLink(ctx, link), nil
}

// check reports ids that the record would refuse, and an id whose parent is missing.
func (l Link) check() error {
	for _, id := range []struct{ name, value string }{
		{"root", l.RootPlanID}, {"plan", l.PlanID}, {"step", l.StepID}, {"tool", l.ToolCallID}, {"project", l.Project},
	} {
		switch {
		case len(id.value) > record.MaxIDBytes:
			return invalidLink("holds a %s of more than %d bytes", id.name, record.MaxIDBytes)
		case !utf8.ValidString(id.value) || strings.ContainsRune(id.value, 0):
			return invalidLink("holds a %s that is no text", id.name)
		case id.value != "" && strings.TrimSpace(id.value) == "":
			return invalidLink("holds a blank %s", id.name)
		}
	}

	switch {
	case l.RootPlanID == "":
		return invalidLink("names no root")
	case l.PlanID == "":
		return invalidLink("names no plan")
	case l.ToolCallID != "" && l.StepID == "":
		return invalidLink("names a tool but no step")
	case l.Seq < 0 || l.Seq > math.MaxInt32:
		return invalidLink("holds the seq %d, which is out of range", l.Seq)
	}
	return nil
}

func invalidLink(reason string, args ...any) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: "link", Reason: fmt.Sprintf(reason, args...)}
}
