//go:build clients

package search_test

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
)

var embedderURL = flag.String("embedder", "",
	"an Embeddings API to measure, up to where /embeddings begins; empty: a small model on this machine")

// TestQuality measures how many questions are answered by words, by the vectors of a real embedder, and by both. In
// short form it leaves out this repository, which takes minutes to embed.
func TestQuality(t *testing.T) {
	t.Parallel()
	e, err := openai.NewEmbedder(openai.Config{Model: "all-MiniLM-L6-v2", BaseURL: embedderAddress(t)})
	if err != nil {
		t.Fatal(err)
	}

	all := []corpus{parcel(t)}
	if !testing.Short() {
		all = append(all, repository(t))
	}
	for _, c := range all {
		c.measure(ask(t, c.open(t, search.Options{}))).report(t, c.name, "words")

		vectors := search.NewVectors(e)
		most := 0 // by the better of two scores: processors round what the model computes a little differently
		for _, minScore := range []float64{search.DefaultMinScore, 0.6} {
			o := search.Options{Vectors: vectors, MinScore: &minScore, Patience: 10 * time.Minute}
			most = max(most, c.measureVectors(t, o))
		}
		if most < wanted {
			t.Errorf("%s: the right file is among the first three for %d of 30 questions, want %d", c.name, most, wanted)
		}
	}
}

// wanted is how many of 30 questions must have the right file among the first three.
const wanted = 27

// measureVectors measures a search by vectors, and one by both. It returns for how many questions both had the right
// file among the first three.
func (c corpus) measureVectors(t *testing.T, o search.Options) (three int) {
	t.Helper()
	folder := c.open(t, o)
	r := c.measure(func(q question) tool.Result {
		result, err := folder.ByVectors(t.Context(), q.Question, q.Tool == "search_documentation")
		// a large folder takes longer than the patience
		for err == nil && strings.Contains(result.Text, "goes on from there") {
			t.Log(result.Summary, result.Embedding.Texts)
			result, err = folder.ByVectors(t.Context(), q.Question, q.Tool == "search_documentation")
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	})
	r.report(t, c.name, fmt.Sprintf("vectors, minScore %v", *o.MinScore))

	r = c.measure(ask(t, folder))
	r.report(t, c.name, fmt.Sprintf("both, minScore %v", *o.MinScore))
	return r.three
}

// embedderAddress returns the address of the Embeddings API to measure, which may be of a server that it starts.
func embedderAddress(t *testing.T) string {
	t.Helper()
	if *embedderURL != "" {
		return throughProxy(t, *embedderURL)
	}

	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "embedder"))); err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(dir, "venv", "bin", "python")
	for _, args := range [][]string{
		{"python3", "-m", "venv", "venv"},
		{python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--requirement", "requirements.txt"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}

	server := exec.CommandContext(t.Context(), python, "server.py")
	server.Dir, server.Stderr = dir, os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // the context has ended it, or this does
		_ = server.Wait()
	})

	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return throughProxy(t, "http://127.0.0.1:"+strings.TrimSpace(port))
}

// throughProxy returns an address that leads to another, and whose connections are closed when the test ends.
func throughProxy(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
	}, Transport: transport})
	t.Cleanup(proxy.Close)
	return proxy.URL
}
