package pgtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/embedpg"
)

func TestMain(m *testing.M) { Main(m) }

func TestContainer(t *testing.T) {
	t.Parallel()
	server, err := startContainer(t.Context())
	if errors.Is(err, errNoDocker) {
		t.Logf("nothing to test: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	if err := Migrate(t.Context(), server.URL); err != nil {
		t.Error(err)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	if dockerAnswers(t.Context()) == nil {
		t.Log("nothing to test: a Docker engine answers, so a server can be started")
		return
	}

	_, _, err := obtain(t.Context(), "", embedpg.Config{Fast: true, BinDirs: []string{}, Offline: true})
	if err == nil {
		t.Fatal("got a server although none is available")
	}
	for _, way := range []string{URLEnv, "apt-get install", "Docker"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not mention %s: %v", way, err)
		}
	}
}

func TestServerNotAnswering(t *testing.T) {
	t.Parallel()
	s, how, err := obtain(t.Context(), "postgres://u:p@127.0.0.1:1/db?connect_timeout=2", embedpg.Config{})
	if err != nil || s.Private || !strings.Contains(how, URLEnv) {
		t.Fatalf("obtain = %v, %s, %v", s, how, err)
	}
	if _, err := s.Found(t.Context(), how, t.Logf); err == nil {
		t.Error("a server answered")
	}
}
