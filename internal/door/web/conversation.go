package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// maxMessage bounds how much of a goal or an answer a conversation shows. The rest is in its run.
const maxMessage = 4_000

// conversationView is the runs of a conversation, oldest first.
type conversationView struct {
	listView
	id    string
	plans map[string]*record.Plan // by the ids of runs
	came  map[string]*outcomeView // those of which the answer is not all
}

func conversationPath(id string) string { return "/conversations/" + url.PathEscape(id) }

func (s *Server) conversation(c echo.Context) error {
	id, err := httpd.NativeID(c, "conversationId")
	if err != nil {
		return err
	}

	v := &conversationView{listView: listView{query: c.QueryParams(), now: s.now()}, id: id}
	if v.value("cursor") == "" { // what comes after the reading is told from a cursor that is taken before
		if v.events, err = s.events(c); err != nil {
			return err
		}
	}
	if v.PlanPage, err = s.lookup.ConversationPage(c, id); err != nil {
		return err
	}
	if len(v.Plans) == 0 {
		return record.ErrNotFound
	}

	slices.Reverse(v.Plans)
	roots := make([]string, len(v.Plans))
	for i := range v.Plans {
		roots[i] = v.Plans[i].Record.RootPlanID
	}
	if v.plans, err = s.lookup.Reader(c).Exchanges(c.Request().Context(), roots, maxMessage); err != nil {
		return err
	}

	plans := slices.Collect(maps.Values(v.plans))
	if v.came, err = outcomesOf(c.Request().Context(), s.lookup.Reader(c), plans...); err != nil {
		return err
	}
	return send(c, http.StatusOK, conversationPage(v))
}

// earlier returns the address of the runs before; empty: there are none.
func (v *conversationView) earlier() string {
	if v.Next == nil {
		return ""
	}
	return conversationPath(v.id) + "?" + url.Values{"cursor": {cursorOf(*v.Next)}}.Encode()
}

// newerRuns returns where the runs are that have come since.
func (v *conversationView) newerRuns() string {
	return "/list/newer?" + url.Values{"conversationId": {v.id}, "after": {place(&v.Plans[len(v.Plans)-1])}}.Encode()
}

// planAt returns the address of the first row of a run.
func planAt(p *store.PlanSummary) string { return outline.At("plan", p.Record.RootPlanID) }

// goal says what a run was asked; empty: that is not on record.
func (v *conversationView) goal(p *store.PlanSummary) string {
	return v.text(p, func(r *record.Plan) *string { return r.UserRequest })
}

// answer says what a run answered; empty: nothing yet.
func (v *conversationView) answer(p *store.PlanSummary) string {
	return v.text(p, func(r *record.Plan) *string { return answerOf(r.Summary, r.ErrorMessage) })
}

// text returns a text of a run; empty: it has none, or was deleted just now.
func (v *conversationView) text(p *store.PlanSummary, of func(*record.Plan) *string) string {
	r := v.plans[p.Record.RootPlanID]
	if r == nil {
		return ""
	}
	text := []rune(optional.Value(of(r)))
	return string(text[:min(len(text), maxMessage)])
}

// begins reports whether a text is the beginning of a longer one.
func begins(text string) bool { return len([]rune(text)) >= maxMessage }

func (v *conversationView) figures(p *store.PlanSummary) (all []string) {
	all = append(all, words.Plural(p.Steps, "step"))
	for _, figure := range []string{v.lasted(p), words.Tokens(p.Total.InputTokens, p.Total.OutputTokens)} {
		if figure != "" {
			all = append(all, figure)
		}
	}
	if p.Total.CostUSD != nil {
		all = append(all, words.Dollars(*p.Total.CostUSD))
	}
	return all
}
