package workflow_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/record"
)

// TestSecretOfCode: what code calls a tool with reaches the tool as it is, and the record redacted. The run goes on
// from there as if it were the same, in a function that is called again.
func TestSecretOfCode(t *testing.T) {
	t.Parallel()
	const secret = "planted-secret"
	h := builds(t)
	h.Parts.Secret = secret
	stop := h.work("1", doing(tools("pay", object{"text": secret}), asks))
	id := h.start()
	h.Await(id, record.Waiting)
	stop()

	h.work("2", doing(tools("pay", object{"text": secret}), asks))
	h.answers()
	p := h.Await(id, record.Completed)
	if got := h.done(); got != "pay "+secret {
		t.Errorf("it did %q", got)
	}

	step, err := h.Store.StepDetail(t.Context(), id, p.Steps[0].Record.StepID)
	if err != nil {
		t.Fatal(err)
	}

	got := enginetest.Text(step.Cycles[0].ToolCalls[0].Record.Parameters)
	if strings.Contains(got, secret) || !strings.Contains(got, "[secret]") {
		t.Errorf("the record has %s", got)
	}
}
