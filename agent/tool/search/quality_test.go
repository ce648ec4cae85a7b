package search_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// question is what a developer asks, with the file that answers it. The questions were written before the search was
// tuned.
type question struct{ Tool, Question, File string }

// corpus is a folder with questions about it.
type corpus struct {
	name, dir string
	hide      []string
	questions []question
}

// repository is this repository, without the questions.
func repository(t *testing.T) corpus {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(dir, "agent", "tool", "search", "testdata")
	return corpus{"this repository", dir, []string{hidden}, questions(t, "actlog.json", dir)}
}

// parcel is a made-up project, see testdata/parcel.txtar.
func parcel(t *testing.T) corpus {
	t.Helper()
	dir := t.TempDir()
	archive, err := os.ReadFile(filepath.Join("testdata", "parcel.txtar"))
	if err != nil {
		t.Fatal(err)
	}

	for _, part := range strings.Split("\n"+string(archive), "\n-- ")[1:] {
		name, text, _ := strings.Cut(part, " --\n")
		write(t, dir, files{name: text + "\n"})
	}

	return corpus{"parcel", dir, nil, questions(t, "parcel.json", dir)}
}

// questions reads the questions about a folder.
func questions(t *testing.T, name, dir string) (all []question) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}

	if len(all) != 30 {
		t.Errorf("%s has %d questions, want 30", name, len(all))
	}
	for _, q := range all {
		if _, err := os.Stat(filepath.Join(dir, q.File)); err != nil {
			t.Errorf("%s: %q: the file that answers it has gone: name the one that does now: %v", name, q.Question, err)
		}
	}
	return all
}

// open opens the folder.
func (c corpus) open(t *testing.T, o search.Options) *search.Folder {
	t.Helper()
	o.Hide = c.hide
	folder, err := search.Open(c.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	return folder
}

// quality is for how many questions the right file came first, and among the first three.
type quality struct {
	first, three int
	missed       []string
}

// measure asks the questions. Only the first part of each file counts.
func (c corpus) measure(ask func(q question) tool.Result) (r quality) {
	for _, q := range c.questions {
		var names []string
		for _, s := range ask(q).Sources {
			if !slices.Contains(names, s.URI) {
				names = append(names, s.URI)
			}
		}

		place := slices.Index(names, q.File)
		if place == 0 {
			r.first++
		}
		if place >= 0 && place < 3 {
			r.three++
		} else {
			r.missed = append(r.missed, fmt.Sprintf("%q: want %s, got %s", q.Question, q.File,
				strings.Join(names[:min(len(names), 4)], " ")))
		}
	}

	return r
}

// report logs a row of the table in the docs, and what was missed.
func (r quality) report(t *testing.T, name, by string) {
	t.Helper()
	t.Logf("| %s | %s | %d | %d |\n%s", name, by, r.first, r.three, strings.Join(r.missed, "\n"))
}

// ask returns what a search finds by the tools.
func ask(t *testing.T, folder *search.Folder) func(question) tool.Result {
	t.Helper()
	set, err := tool.NewSet(folder.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return func(q question) tool.Result { return call(t, set, "search."+q.Tool, object{"query": q.Question}) }
}

// TestQualityByWords measures how many questions are answered without an embedder. Of this repository, which changes,
// it wants less than it finds today.
func TestQualityByWords(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a search finds")
	t.Parallel()
	for _, row := range []struct {
		corpus
		least int
	}{{parcel(t), 25}, {repository(t), 20}} {
		r := row.measure(ask(t, row.open(t, search.Options{})))
		r.report(t, row.name, "words")
		if r.three < row.least {
			t.Errorf("%s: the right file is among the first three for %d of 30 questions, want %d", row.name, r.three, row.least)
		}
	}
}
