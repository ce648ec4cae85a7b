package runapi_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```(sh|json|sql)\n(.*?)^```$")
	anyTook   = regexp.MustCompile(`took \d+\.\d\ds|"execution_time": ?[\d.e-]+`)
)

// E1, E6, E7, E16, E19, E21: docs/dag.md. Its commands give the answers that stand below them, but for ids and times.
func TestDocsGraphs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("CI") == "" {
		t.Skip("curl is not installed")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "dag.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := codeBlock.FindAllStringSubmatch(strings.ReplaceAll(string(page), "gpt-5-mini", "scripted"), -1)

	var planned struct {
		Title string           `json:"title"`
		Nodes []map[string]any `json:"nodes"`
	}
	var results struct {
		Nodes []struct{ Name, Result string } `json:"node_results"`
	}
	if len(blocks) != 10 || json.Unmarshal([]byte(blocks[1][2]), &planned) != nil ||
		json.Unmarshal([]byte(blocks[8][2]), &results) != nil {
		t.Fatalf("%d blocks", len(blocks))
	}

	var scenes []scriptmodel.Scene
	var c *client
	for _, n := range results.Nodes {
		turn := scriptmodel.Turn{Content: n.Result}
		if n.Name == "Coffee" { // the page shows one order of the two nodes that run at the same time
			turn = scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
				storetest.Until(t, "tea is rated", func() bool {
					return len(storetest.Lines(t, c.DB.Pool,
						"SELECT content FROM actlog.thought WHERE content LIKE 'Completed node node_1:%'")) > 0
				})
				return scriptmodel.Turn{Content: n.Result}, nil
			}}
		}
		scenes = append(scenes, node(n.Name, turn))
	}

	answer, err := json.Marshal(planned)
	if err != nil {
		t.Fatal(err)
	}
	c = graphs(t, string(answer), apitest.Options{}, scenes...)

	ids := map[string]string{"PLAN": "", "EXECUTION": ""}
	plain := func(text string) any {
		t.Helper()
		for name, id := range ids {
			if id != "" {
				text = strings.ReplaceAll(text, id, name)
			}
		}

		var v any
		if err := json.Unmarshal([]byte(anyTook.ReplaceAllStringFunc(text, func(s string) string {
			if strings.HasPrefix(s, "took") {
				return "took 0.00s"
			}
			return `"execution_time": 0`
		})), &v); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return v
	}

	for i := 0; i < len(blocks); i++ {
		kind, text := blocks[i][1], blocks[i][2]
		switch kind {
		case "sql":
			storetest.Lines(t, c.DB.Pool, strings.Replace(text, "plan_id, node, state, blocks, duration_seconds", "plan_id", 1))
		case "json": // without a command: a frame
			if diff := cmp.Diff(plain(text), plain(string(apitest.JSON(t, frameOf(c.ended(ids["EXECUTION"])))))); diff != "" {
				t.Errorf("plain (-want +got):\n%s", diff)
			}
		case "sh":
			shell := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(text, "http://127.0.0.1:8420", c.Base))
			shell.Env = append(os.Environ(), "PLAN="+ids["PLAN"], "EXECUTION="+ids["EXECUTION"])
			out, err := shell.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}

			var got struct {
				PlanID      string `json:"plan_id"`
				ExecutionID string `json:"execution_id"`
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}

			if ids["PLAN"] == "" {
				ids["PLAN"] = got.PlanID
			} else if ids["EXECUTION"] == "" {
				ids["EXECUTION"] = got.ExecutionID
			}
			if diff := cmp.Diff(plain(blocks[i+1][2]), plain(string(out))); diff != "" {
				t.Errorf("%s(-page +server):\n%s", text, diff)
			}
			i++
		}
	}
}

// frameOf returns a frame under its names.
func frameOf(f frame) obj {
	return obj{"status": f.Status, "node_states": f.States, "logs": f.Logs}
}
