package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/redact"
)

// TestHandler checks that texts of all kinds are redacted in a log, and that nothing else changes.
func TestHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	hide := func(text string) string { return strings.ReplaceAll(text, "planted", "[secret]") }
	log := slog.New(redact.Handler(slog.NewTextHandler(&out, nil), hide))
	log.With("of", "planted").WithGroup("g").Info("planted message", "text", "planted", "n", 7, "error",
		errors.New("planted error"),
		slog.Group("in", "list", []string{"planted"}, "ok", true))

	for _, want := range []string{
		`msg="[secret] message"`, `of=[secret]`, `g.text=[secret]`, `g.n=7`, `g.error="[secret] error"`,
		`g.in.list=[[secret]]`, "g.in.ok=true",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %s", &out, want)
		}
	}
	if log.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("it changes the level")
	}
}
