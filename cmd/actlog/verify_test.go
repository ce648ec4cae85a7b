package main

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestVerify takes a part of a prompt away, and has it found.
func TestVerify(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	s := storetest.OpenURL(t, database)
	for _, root := range []string{"fine", "hurt"} {
		storetest.Write(t, s, &record.ThinkAct{
			RootPlanID: root, StepID: root + "-step", Seq: 4, ThinkInput: new(strings.Repeat("A prompt of "+root+". ", 10)),
		})
	}

	verify := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := actlog(t, append([]string{"verify", "--database-url", database}, args...)...)
		if code != want {
			t.Errorf("exit code %d, want %d\n%s", code, want, stderr)
		}
		return stdout, stderr
	}

	if stdout, stderr := verify(exitDone); stdout != "" || stderr != "2 runs checked\n" {
		t.Errorf("nothing is damaged: %q, %q", stdout, stderr)
	}

	storetest.Exec(t, s, "DELETE FROM actlog.content WHERE root_plan_id = 'hurt' AND body LIKE '%prompt of hurt%'")
	stdout, stderr := verify(exitFailed)
	if !strings.HasPrefix(stdout, "plan hurt, step hurt-step, cycle 5: content ") || strings.Count(stdout, "\n") != 1 ||
		!strings.Contains(stderr, "1 prompts are damaged") {
		t.Errorf("damaged: %q, %q", stdout, stderr)
	}

	if stdout, _ := verify(exitFailed, "--json"); !strings.Contains(stdout,
		`"rootPlanId":"hurt","stepId":"hurt-step","seq":4,"content":"`) {
		t.Errorf("as JSON: %q", stdout)
	}
	if code, _, stderr := actlog(t, "verify", "--data-dir", t.TempDir()); code != exitFailed ||
		!strings.Contains(stderr, "there is no record in the folder") {
		t.Errorf("without a record: exit code %d, %q", code, stderr)
	}
}
