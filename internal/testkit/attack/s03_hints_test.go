//go:build attack

package attack_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// S3: hints of a server that is not trusted only make it stricter.

func TestS3Hints(t *testing.T) {
	t.Parallel()
	const asks, runs = "asks", "runs"
	type play struct{ tool, want, free, why string }
	var plays []play
	for tool := range toolHints {
		if tool != "slow" {
			plays = append(plays, play{"shady-" + tool, asks, runs, "its server is not trusted"})
		}
	}

	plays = append(plays,
		play{"bank-look", runs, runs, "it only reads, and is trusted"},
		play{"bank-touch", runs, runs, "it destroys nothing, and is trusted"},
		play{"bank-wipe", asks, runs, "it destroys"},
	)

	for _, policies := range []struct {
		name  string
		rules []object
		want  func(p play) string
	}{
		{"no policy", []object{{"tools": "none-*", "approval": true}}, func(p play) string { return p.want }},
		{"approval: false", []object{{"tools": "shady-*", "approval": false}, {"tools": "bank-*", "approval": false}},
			func(p play) string {
				return p.free
			}},
		// a server chooses the names of its tools
		{"a rule that is meant for no server", []object{{"tools": "*-*", "approval": false, "writes": false}},
			func(p play) string {
				if strings.HasPrefix(p.tool, "shady-") {
					return asks
				}
				return runs
			}},
		{"read-only by policy", []object{{"tools": "shady-*", "writes": false}}, func(p play) string {
			// which say themselves that they destroy
			if strings.HasPrefix(p.tool, "shady-") && p.tool != "shady-wipe" && p.tool != "shady-lie" {
				return runs
			}
			return p.want
		}},
		{"another policy without approval", []object{{"tools": "*-*", "onUnknown": "retry", "timeout": "20s"}},
			func(p play) string {
				return p.want
			}},
	} {
		t.Run(policies.name, func(t *testing.T) {
			t.Parallel()
			agents, more := object{}, []scriptmodel.Scene{}
			for _, p := range plays {
				rounds := [][]act{{on(p.tool, "a")}}
				agents["uses-"+p.tool] = agentWith("uses-"+p.tool, rounds)
				more = append(more, scene("uses-"+p.tool, rounds))
			}

			h := open(t, setting{config: object{"agents": agents, "policies": policies.rules}, scenes: more})
			started := map[string]*run{}
			for _, p := range plays {
				started[p.tool] = h.start("uses-" + p.tool)
			}

			for _, p := range plays {
				r := started[p.tool]
				r.waits()
				got := runs
				if r.view().State == "WAITING" {
					got = asks
				}

				if want := policies.want(p); got != want {
					t.Errorf("%s: %s %s, and must be one that %s: %s", policies.name, p.tool, got, want, p.why)
				}
				if done := len(h.tools.of(r.mark)); got == asks && done > 0 {
					t.Errorf("%s: %s was called before anybody approved it", policies.name, p.tool)
				}
			}
		})
	}
}
