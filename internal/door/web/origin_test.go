package web_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// folds returns what stands in the folds of a cycle, and which cycle their last link leads to.
func (p *page) folds() (all []string) {
	for _, n := range p.all("class", "known") {
		to := ""
		for d := range n.Descendants() {
			if d.Type == html.ElementNode && d.Data == "a" && strings.Contains(attr(d, "href"), "cycle%3A") {
				_, to, _ = strings.Cut(attr(d, "href"), "%2F")
			}
		}
		all = append(all, text(n)+" → "+to)
	}
	return all
}

// openCut opens a site whose texts are cut in some way.
func openCut(t *testing.T, sizes content.Sizes) *site {
	t.Helper()
	return serve(t, storetest.Open(t, func(c *store.Config) { c.Contents = sizes }), apitest.Config{}, web.Runtime{})
}

// asMessage is a message of a prompt.
func asMessage(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }

// TestWhereMessagesAreFrom: known messages are folded by the cycle that had them first, in its prompt or as its answer,
// whatever the prompts are kept in.
func TestWhereMessagesAreFrom(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	sys, user := asMessage("system", "Be brief."), asMessage("user", "How many pages?")
	say := func(i int) string { return asMessage("assistant", fmt.Sprint("answer ", i)) }
	ask := func(i int) string { return asMessage("user", fmt.Sprint("question ", i)) }
	long := asMessage("user", strings.Repeat("many words ", 1_000))

	for name, tt := range map[string]struct {
		prompts [][]string
		want    []string // of the last cycle
		fresh   []string // what stands out
	}{
		"growing": {
			[][]string{
				{sys, user}, {sys, user, say(0), ask(1)}, {sys, user, say(0), ask(1), say(1), ask(2), long},
				{sys, user, say(0), ask(1), say(1), ask(2), long, say(2), ask(3)},
			},
			[]string{
				"3 messages same as cycle 1 system: Be brief. → 0", "2 messages same as cycle 2 user: question 1 → 1",
				"3 messages same as cycle 3 user: question 2 → 2",
			},
			[]string{"question 3"},
		},
		"a front that changes": {
			[][]string{
				{asMessage("system", "It is 1."), user, long}, {asMessage("system", "It is 2."), user, long, say(0)},
				{asMessage("system", "It is 3."), user, long, say(0), say(1)},
			},
			[]string{
				"3 messages same as cycle 1 user: How many pages? → 0", "1 message same as cycle 2 assistant: answer 1 → 1",
			},
			[]string{"It is 3."},
		},
		"a summary takes the place of messages": {
			[][]string{
				{sys, user}, {sys, user, say(0), ask(1)}, {sys, asMessage("user", "Summary of all."), ask(1)},
				{sys, asMessage("user", "Summary of all."), ask(1), say(2), ask(3)},
			},
			[]string{
				"1 message same as cycle 1 system: Be brief. → 0", "1 message same as cycle 3 user: Summary of all. → 2",
				"1 message same as cycle 2 user: question 1 → 1", "1 message same as cycle 3 assistant: answer 2 → 2",
			},
			[]string{"question 3"},
		},
		"a message that comes back": { // the cycle before had it not
			[][]string{{sys, user}, {sys}, {sys, user}},
			[]string{"1 message same as cycle 1 system: Be brief. → 0"},
			[]string{"How many pages?"},
		},
		"equal messages": {
			[][]string{
				{sys, ask(1)}, {sys, ask(1), ask(1)}, {sys, ask(1), ask(1), ask(1)}, {sys, ask(1), ask(1), ask(1), ask(1)},
			},
			[]string{
				"2 messages same as cycle 1 system: Be brief. → 0", "1 message same as cycle 2 user: question 1 → 1",
				"1 message same as cycle 3 user: question 1 → 2",
			},
			[]string{"question 1"},
		},
	} {
		for sizes, cut := range map[string]content.Sizes{
			"small": storetest.CutAll, "default": content.DefaultSizes, "uncut": {Cut: math.MaxInt, Average: 1},
		} {
			for form, shape := range map[string]string{
				"list": "[%s]", "request": `{"model":"m","messages":[%s],"temperature":0}`,
			} {
				t.Run(name+"/"+sizes+"/"+form, func(t *testing.T) {
					t.Parallel()
					s := openCut(t, cut)
					storetest.Write(t, s.store, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"},
						&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"})
					for i, messages := range tt.prompts {
						storetest.Write(t, s.store, &record.ThinkAct{
							RootPlanID: "p", StepID: "s", Seq: int64(i), ThinkInput: new(fmt.Sprintf(shape, strings.Join(messages, ", "))),
							ThinkOutput: new(fmt.Sprint("answer ", i)),
						})
					}

					p := s.get(at("p", fmt.Sprint("cycle:s/", len(tt.prompts)-1)), http.StatusOK)
					got := p.folds()
					for i := range got {
						got[i] = strings.TrimPrefix(got[i], "▸ ")
					}

					want := tt.want
					if form == "request" { // what is around the messages is one more, which is known, too
						got = got[:min(len(got), len(want))]
					}
					if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
						t.Errorf("folds\n%q\nwant\n%q", got, want)
					}
					for _, fresh := range tt.fresh {
						p.has(fresh)
					}
				})
			}
		}
	}
}

// TestOriginsOfLongSteps: of a step of 100 cycles with prompts of up to 400 kB, the last cycle says where its messages
// are from. Of prompts that have nothing in common there is too much to read, and it says so.
func TestOriginsOfLongSteps(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	s := openCut(t, content.DefaultSizes)
	var all, others []string
	changes := []record.Change{
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}, &record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "t"},
	}

	for i := range int64(100) {
		all = append(all, asMessage("user", fmt.Sprint("question ", i, strings.Repeat(fmt.Sprint(" word ", i), 400))))
		changes = append(changes, &record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: i, ThinkInput: new("[" + strings.Join(all, ",") + "]"),
			ThinkOutput: new(fmt.Sprint("answer ", i)),
		})
		all = append(all, asMessage("assistant", fmt.Sprint("answer ", i)))
	}

	for i := range int64(12) {
		others = append(others[:0], asMessage("user", "the same"))
		for j := range 100 {
			others = append(others, asMessage("user",
				fmt.Sprint(i, " ", j, strings.Repeat(fmt.Sprint(" word ", i*100+int64(j)), 300))))
		}
		changes = append(changes, &record.ThinkAct{
			RootPlanID: "p", StepID: "t", Seq: i, ThinkInput: new("[" + strings.Join(others, ",") + "]"),
		})
	}

	storetest.Write(t, s.store, changes...)

	path := at("p", "cycle:s/99")
	s.get(path, http.StatusOK)
	began := time.Now()
	p := s.get(path, http.StatusOK)
	t.Logf("a cycle with a prompt of %d kB behind 99 others: %v",
		len(*changes[len(changes)-13].(*record.ThinkAct).ThinkInput)>>10, time.Since(began))

	folds := p.folds()
	p.has("190 messages more, same as 95 earlier cycles")
	p.one("id", "text:thinkInput/folds/0") // by which it stays open while the run goes on
	if len(folds) != 99 || !strings.Contains(folds[0], "2 messages same as cycle 1 user") ||
		!strings.HasSuffix(folds[98], "→ 98") || !strings.Contains(folds[98], "same as cycle 99") {
		t.Errorf("%d folds: %.300q", len(folds), folds)
	}

	p = s.get(at("p", "cycle:t/11"), http.StatusOK)
	p.has("1 message same as the cycle before user: the same", "was not looked for: there is too much to read")
	if folds := p.folds(); len(folds) != 1 || !strings.HasSuffix(folds[0], "→ 10") {
		t.Errorf("folds = %q", folds)
	}
}
