package agenttest_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// export returns what actlog export writes of a run.
func export(t *testing.T, url, planID string) []byte {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{DatabaseURL: url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()

	var out bytes.Buffer
	if err := s.Export(t.Context(), planID, planID, func(c record.Change) error {
		line, err := wire.Encode(c)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// working opens a runtime that works until the end of the test.
func working(t *testing.T, url string, parts agent.Parts) *agent.Runtime {
	t.Helper()
	a, err := agent.Open(t.Context(), url, agent.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	if err := a.Register(parts); err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.Work(context.Background()) }() // Close ends it
	return a
}

// recordOf does a work to its end, and returns what is on record of it. decide answers what the run waits for; nil: it
// waits for nothing.
func recordOf(
	t *testing.T, url string, parts agent.Parts, job agent.Job, decide func(agent.Wait) agent.Decision,
) []byte {
	t.Helper()
	a := working(t, url, parts)
	id, err := a.Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}

	for {
		run, err := a.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if run.State.Terminal() {
			t.Logf("the recorded run is %s: %s%s", run.State, run.Result, run.Error)
			return export(t, url, id)
		}

		if decide == nil || len(run.Waits) == 0 {
			return export(t, url, id)
		}
		for _, w := range run.Waits {
			if err := a.Decide(t.Context(), w.PlanID, w.WaitID, decide(w)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func read(b []byte) io.Reader { return bytes.NewReader(b) }
