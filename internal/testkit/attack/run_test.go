//go:build attack

package attack_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is one of the server.
type answer struct {
	status int
	body   string
	header http.Header
}

func (a answer) object() (o object) {
	_ = json.Unmarshal([]byte(a.body), &o)
	return o
}

// client follows no redirects and keeps no cookies.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       60 * time.Second,
}

// call sends a request with a key, and headers as "Name: value". A body that is no text is sent as JSON.
func (h *house) call(key, method, path string, body any, headers ...string) answer {
	h.t.Helper()
	a, err := h.try(h.t.Context(), key, method, path, body, headers...)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *house) try(ctx context.Context, key, method, path string, body any, headers ...string) (a answer, err error) {
	var content []byte
	switch b := body.(type) {
	case nil:
	case string:
		content = []byte(b)
	case []byte:
		content = b
	default:
		if content, err = json.Marshal(b); err != nil {
			return a, err
		}
	}

	req, err := http.NewRequestWithContext(ctx, method, h.url+path, bytes.NewReader(content))
	if err != nil {
		return a, err
	}

	req.Header.Set("Content-Type", "application/json")
	if secret := h.keys[key]; secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}

	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(b), resp.Header}, err
}

// patience is how long something may take that is to happen.
const patience = 30 * time.Second

// until waits until something holds. It fails the test if it never does.
func (h *house) until(what string, holds func() bool) bool {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()

	for !holds() {
		select {
		case <-ctx.Done():
			h.t.Errorf("never: %s", what)
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// run is a run of a house.
type run struct {
	h        *house
	kind     string // an agent, "orchestrator" or "dag"
	mark, id string
	by       string // the key that started it
}

// start starts a run of an agent, or of an executor.
func (h *house) start(kind string) *run { return h.startAs("owner", kind, nil) }

// startAs starts a run by a key, with more members of the body, and headers.
func (h *house) startAs(key, kind string, more object, headers ...string) *run {
	h.t.Helper()
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	r := &run{h: h, kind: kind, mark: "mark-" + hex.EncodeToString(random), by: key}

	body := object{"executor": "agent", "input": object{"agent": kind, "request": "Do it for " + r.mark + "."}}
	switch kind {
	case "orchestrator":
		body = object{"executor": kind, "input": object{"request": "Do it for " + r.mark + "."}}
	case "dag":
		body = object{"executor": kind, "input": object{"prompt": "Do it for " + r.mark + "."}}
	}
	for name, value := range more {
		body[name] = value
	}

	a := h.call(key, http.MethodPost, "/api/v1/runs", body, headers...)
	if a.status != http.StatusAccepted {
		h.t.Fatalf("start %s: %d %s", kind, a.status, a.body)
	}
	r.id = a.object()["planId"].(string)
	return r
}

// view is what the server shows of a run.
type view struct {
	State, Result string
	Error         *string
	ErrorKind     *string
	Waits         []wait
	raw           string
}

type wait struct {
	WaitID, PlanID, Type, State string
	Name                        *string
	Parameters, Plan            json.RawMessage
	Preview                     *preview
	Decision, DecidedBy         *string
	Decisions                   []string
}

// preview is what whoever approves a call sees of what it would do.
type preview struct{ Kind, Text, SHA256 string }

func (r *run) view() (v view) {
	a := r.h.call("owner", http.MethodGet, "/api/v1/runs/"+r.id, nil)
	v.raw = a.body

	var loose struct {
		State  string
		Result json.RawMessage
	}
	_ = json.Unmarshal([]byte(a.body), &loose)
	if err := json.Unmarshal([]byte(a.body), &v); err != nil { // a result that is an object
		v.State, v.Result = loose.State, string(loose.Result)
	}
	return v
}

var ended = []string{"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED", "UNKNOWN"}

// moments are where runs are attacked: which run, and what is true then.
var moments = []struct{ name, kind string }{
	{"waits for an approval", "approved"},
	{"waits for a form", "asking"},
	{"waits for a sub-plan", "parent"},
	{"is between calls, some of which wait", "two"},
	{"runs a tool", "slow"},
	{"waits for the plan", "orchestrator"},
	{"has ended", "quick"},
}

// reach waits until the run is where it is attacked: it waits for a human, its slow tool runs, or it has ended.
func (r *run) reach() bool {
	r.h.t.Helper()
	switch r.kind {
	case "slow", "late":
		ctx, cancel := context.WithTimeout(r.h.t.Context(), patience)
		defer cancel()
		if !r.h.tools.awaitTool(ctx, r.mark, "slow") {
			r.h.t.Fatalf("never: %s is in its slow tool: %s", r.kind, r.view().raw)
		}
		return true
	case "quick", "dag", "remembers":
		return r.end()
	}
	return r.waits()
}

func (r *run) waits() bool {
	r.h.t.Helper()
	return r.h.until(r.kind+" waits for a human", func() bool {
		v := r.view()
		return v.State == "WAITING" && len(v.Waits) > 0 || slices.Contains(ended, v.State)
	})
}

func (r *run) end() bool {
	r.h.t.Helper()
	return r.h.until(r.kind+" ends", func() bool { return slices.Contains(ended, r.view().State) })
}

// decide answers a wait as a key.
func (r *run) decide(key string, w wait, body object) answer {
	return r.h.call(key, http.MethodPost, "/api/v1/runs/"+r.id+"/waits/"+w.WaitID, body)
}

// finish says yes to whatever the run waits for, until it ends, and returns how it went.
func (r *run) finish() outcome {
	r.h.t.Helper()
	r.h.tools.release(r.mark)
	r.h.until(r.kind+" ends", func() bool {
		v := r.view()
		for _, w := range v.Waits {
			body := object{"decision": w.Decisions[0]}
			if body["decision"] == "submit" {
				body["values"] = object{"city": "Oslo"}
			}
			r.decide("owner", w, body)
		}
		return slices.Contains(ended, v.State)
	})
	return r.outcome()
}

// outcome is what came of a run: how it ended, and what its tools were asked to do. Marks and ids are the same in all
// runs.
type outcome struct {
	State, Result, Error string
	Effects              []effect
}

func (r *run) outcome() outcome {
	v := r.view()
	o := outcome{State: v.State, Result: r.plain(essence(v.Result))}
	if v.Error != nil {
		o.Error = r.plain(*v.Error)
	}

	ids := map[string]bool{}
	for _, e := range r.h.tools.of(r.mark) {
		if ids[e.CallID] || !strings.HasPrefix(e.CallID, "toolcall-") {
			e.CallID += " again"
		} else {
			ids[e.CallID], e.CallID = true, "its own"
		}

		e.Arguments = r.plain(e.Arguments)
		o.Effects = append(o.Effects, e)
	}
	// calls of a cycle run side by side
	slices.SortStableFunc(o.Effects, func(a, b effect) int { return strings.Compare(a.Arguments, b.Arguments) })
	return o
}

// essence is what was found, of a result that also says when.
func essence(result string) string {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(result), &o) != nil {
		return result
	}
	for _, member := range []string{"node_results", "result"} {
		if found, ok := o[member]; ok {
			return string(found)
		}
	}
	return result
}

var idPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// plain makes texts of different runs the same.
func (r *run) plain(text string) string {
	return idPattern.ReplaceAllString(strings.ReplaceAll(text, r.mark, "MARK"), "ID")
}

// undisturbed is the outcome of a run that nobody attacks.
func (h *house) undisturbed(kind string) outcome {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := h.plain[kind]; ok {
		return o
	}

	r := h.start(kind)
	r.reach()
	o := r.finish()
	if o.State != "COMPLETED" {
		h.t.Fatalf("the undisturbed run of %s: %+v", kind, o)
	}
	h.plain[kind] = o
	return o
}

// goesAsUndisturbed lets the run end, and compares it with one that nobody attacked.
func (r *run) goesAsUndisturbed(what string) {
	r.h.t.Helper()
	want := r.h.undisturbed(r.kind)
	if diff := cmp.Diff(want, r.finish()); diff != "" {
		r.h.t.Errorf("%s: the run of %s went otherwise than undisturbed:\n%s", what, r.kind, diff)
	}
}

// reads are all that is shown of a run: by path, the status and the body.
func (r *run) reads() map[string]string {
	all := map[string]string{}
	read := func(path string) answer {
		a := r.h.call("owner", http.MethodGet, path, nil)
		all[path] = fmt.Sprint(a.status, " ", a.body)
		return a
	}

	for _, id := range r.planIDs() {
		for _, path := range []string{"/api/v1/runs/", "/api/v1/plans/", "/api/executor/details/"} {
			read(path + id)
		}
		for _, beside := range []string{"thoughts", "artifacts", "sources", "waits", "failures", "records"} {
			read("/api/v1/plans/" + id + "/" + beside)
		}
		read("/api/v1/runs/" + id + "/trace")
	}

	for _, id := range r.stepIDs() {
		read("/api/v1/steps/" + id)
		read("/api/executor/agent-execution/" + id)
	}
	return all
}

// showsWhatItShowed compares reads of a run from before an attack with those of now.
func (r *run) showsWhatItShowed(what string, before map[string]string) {
	r.h.t.Helper()
	var changed []string
	now := r.reads()
	for path, was := range before {
		if alsoUnder.ReplaceAllString(now[path], "") != alsoUnder.ReplaceAllString(was, "") {
			changed = append(changed, fmt.Sprintf("%s\n%s", path, clipDiff(cmp.Diff(lines(was), lines(now[path])))))
		}
	}

	if len(changed) > 0 {
		slices.Sort(changed)
		r.h.t.Errorf("%s: what is shown of the run of %s changed at %d of %d paths; the first:\n%s", what, r.kind,
			len(changed), len(before), changed[0])
	}
}

// alsoUnder says that other trees have the same id, which is true and no harm.
var alsoUnder = regexp.MustCompile(`"alsoUnder":\[[^\]]*\]`)

func lines(body string) []string {
	return strings.Split(strings.NewReplacer(`,"`, ",\n\"", "},{", "},\n{").Replace(body), "\n")
}

func clipDiff(text string) string {
	if len(text) > 1500 {
		return text[:1500] + "..."
	}
	return text
}

// records returns the rows of a tree, as its export has them.
func (r *run) records() (all []object) {
	a := r.h.call("owner", http.MethodGet, "/api/v1/plans/"+r.id+"/records", nil)
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()

	for {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			r.h.t.Fatalf("export of %s: %v: %s", r.id, err, a.body)
		}
		all = append(all, o)
	}
}

func (r *run) planIDs() []string { return r.distinct("plan", "currentPlanId") }
func (r *run) stepIDs() []string { return r.distinct("agentExecution", "stepId") }

func (r *run) distinct(kind, member string) (ids []string) {
	for _, o := range r.records() {
		if id, ok := o[member].(string); ok && o["kind"] == kind && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
