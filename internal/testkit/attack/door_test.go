//go:build attack

package attack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

// owned is the code with which a record is refused because the runtime owns its tree.
const owned = "owned_by_runtime"

// door is a way by which records come in.
type door struct {
	name string
	// send sends records with a key, and returns the codes of those that were rejected, by their index.
	send func(h *house, key string, records []object) map[int]string
}

// doors are all ways of records but those of traces.
var doors = []door{
	{"POST, JSON", func(h *house, key string, records []object) map[int]string {
		return h.post(key, "application/json", object{"records": records}, len(records))
	}},
	{"POST, NDJSON", func(h *house, key string, records []object) map[int]string {
		return h.post(key, "application/x-ndjson", ndjson(records), len(records))
	}},
	{"actlog import", importRecords},
	{"recorder.NewHTTP", func(h *house, key string, records []object) map[int]string {
		sink, err := recorder.NewHTTP(h.url, recorder.HTTPOptions{APIKey: h.keys[key]})
		if err != nil {
			h.t.Fatal(err)
		}
		return h.sink(sink, records)
	}},
	{"recorder/direct", func(h *house, _ string, records []object) map[int]string {
		sink, err := direct.Open(h.t.Context(), h.database, nil)
		if err != nil {
			h.t.Fatal(err)
		}
		defer sink.Close(h.t.Context())
		return h.sink(sink, records)
	}},
}

func ndjson(records []object) string {
	var b strings.Builder
	for _, r := range records {
		line, _ := json.Marshal(r) // texts, numbers and lists
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// post sends records, and checks that the status agrees with the body.
func (h *house) post(key, contentType string, body any, sent int) map[int]string {
	h.t.Helper()
	a := h.call(key, http.MethodPost, "/api/v1/records", body, "Content-Type: "+contentType)

	var said struct {
		Accepted int
		Rejected []struct {
			Index                int
			Code, Field, Message string
		}
	}

	if err := json.Unmarshal([]byte(a.body), &said); err != nil || said.Accepted+len(said.Rejected) != sent {
		h.t.Errorf("%d records were answered %d %.300s", sent, a.status, a.body)
	}
	want := http.StatusMultiStatus
	switch sent {
	case said.Accepted:
		want = http.StatusOK
	case len(said.Rejected):
		want = http.StatusUnprocessableEntity
	}
	if a.status != want {
		h.t.Errorf("%d of %d records were rejected, status %d, want %d", len(said.Rejected), sent, a.status, want)
	}

	codes := map[int]string{}
	for _, r := range said.Rejected {
		if codes[r.Index] = r.Code; r.Code == owned && (r.Field == "" || r.Message == "") {
			h.t.Errorf("rejected without a field or a message: %+v", r)
		}
	}
	return codes
}

func (h *house) sink(sink recorder.Sink, records []object) map[int]string {
	h.t.Helper()
	codes := map[int]string{}
	var changes []record.Change
	var at []int
	for i, r := range records {
		raw, err := json.Marshal(r)
		var c record.Change
		if err == nil {
			c, err = wire.Decode(raw)
		}
		if err != nil {
			h.t.Fatalf("%v: %v", r, err)
		}
		changes, at = append(changes, c), append(at, i)
	}

	result, err := sink.Write(h.t.Context(), changes)
	if err != nil {
		h.t.Errorf("write: %v", err)
	}
	for _, r := range result.Rejected {
		codes[at[r.Index]] = string(r.Err.Code)
	}
	return codes
}

var importedLine = regexp.MustCompile(`:(\d+): (\w+): `)

// importRecords writes a file and imports it, as one who edits an export does.
func importRecords(h *house, key string, records []object) map[int]string {
	h.t.Helper()
	path := filepath.Join(h.dir, "attack.ndjson")
	h.write(path, ndjson(records))
	_, stderr, _ := h.command(key, "", "import", path)

	codes := map[int]string{}
	for _, m := range importedLine.FindAllStringSubmatch(stderr, -1) {
		line, _ := strconv.Atoi(m[1])
		codes[line-1] = m[2]
	}
	return codes
}

// refusesAll sends records of somebody else's tree by a door, each with a good one beside it, and checks that
// these alone are accepted.
func (h *house) refusesAll(what string, d door, key string, records []object) {
	h.t.Helper()
	if len(records) == 0 {
		h.t.Fatalf("%s: there is nothing to send", what)
	}

	for len(records) > 0 {
		n := min(len(records), 900)
		h.refuses(what, d, key, records[:n])
		records = records[n:]
	}
}

func (h *house) refuses(what string, d door, key string, records []object) {
	h.t.Helper()
	good := record.NewPlanID()
	sent := append(append([]object{}, records...), object{
		"kind": "plan", "rootPlanId": good, "currentPlanId": good, "title": "Beside.",
	})
	codes := d.send(h, key, sent)

	accepted, otherwise := map[string]int{}, map[string]int{}
	var first string
	for i, r := range records {
		switch code, rejected := codes[i]; {
		case !rejected:
			if accepted[nameOf(r)]++; first == "" {
				raw, _ := json.Marshal(r)
				first = clipDiff(string(raw))
			}
		case code != owned:
			otherwise[nameOf(r)+" "+code]++
		}
	}

	if len(accepted) > 0 {
		h.t.Errorf("%s by %s with key %s: %d of %d records were accepted: %s; the first: %s", what, d.name, key,
			sum(accepted), len(records), few(accepted), first)
	}
	if len(otherwise) > 0 {
		h.t.Errorf("%s by %s with key %s: %d of %d records were rejected for another reason: %s", what, d.name, key,
			sum(otherwise), len(records), few(otherwise))
	}
	if code, rejected := codes[len(records)]; rejected {
		h.t.Errorf("%s by %s with key %s: the good record beside was rejected: %s", what, d.name, key, code)
	}
}

// nameOf says what a record is about: its kind, and why it is hostile.
func nameOf(r object) string { return fmt.Sprint(r["kind"]) }

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func few(counts map[string]int) string {
	text := fmt.Sprint(counts)
	return strings.TrimPrefix(clipDiff(text), "map")
}
