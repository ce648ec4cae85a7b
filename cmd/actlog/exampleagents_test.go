package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// exampleAgents is the configuration that users begin with.
var exampleAgents = filepath.Join("..", "..", "examples", "agents", "actlog.yaml")

// shopAddress is the host to which that configuration lets requests go.
const shopAddress = "127.0.0.1:18080"

// TestExampleAgents starts a server with the example configuration as it is, and lets a person and a scripted model
// play what its agents are for: tasks in Python and Go, the operation of a program, its data, and a refactoring that
// four agents share.
func TestExampleAgents(t *testing.T) {
	t.Parallel()
	python := pythonProgram(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "shop"))); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "Begin")

	scenes := slices.Concat(taskScenes(t), refactoringScenes(t))
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: scenes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	shop := pgtest.Empty(t)
	env := []string{
		"PROJECT=" + dir, "OPENAI_API_KEY=key", "OPENAI_BASE_URL=" + m.URL(), "SHOP_DATABASE_URL=" + shopLogin(t, shop),
		"DOCKER_SOCKET=" + fakeDaemon(t), "PATH=" + python + string(os.PathListSeparator) + os.Getenv("PATH"),
		"XDG_CACHE_HOME=" + t.TempDir(),
	}

	server := beginWith(t, os.Args[0], env, "serve", "--listen", "127.0.0.1:0", "--database-url", pgtest.Fresh(t).URL,
		"--config", exampleAgents, "--workers", "2")
	server.served(t)
	if text := server.stderr.String(); strings.Contains(text, "WARN") && strings.Contains(text, "actlog.yaml:") {
		t.Errorf("the configuration has warnings:\n%s", text)
	}
	p := person{t, server.url}

	t.Run("tasks", func(t *testing.T) { playTasks(person{t, p.url}, dir) })
	t.Run("DEVOPS", func(t *testing.T) { playOperation(person{t, p.url}) })
	t.Run("DATA", func(t *testing.T) { playData(person{t, p.url}, shop) })
	t.Run("refactoring", func(t *testing.T) { playRefactoring(person{t, p.url}, dir) })
}

// pythonProgram returns the folder of Python's program itself: one of a version manager may not run in a sandbox.
func pythonProgram(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-c",
		"import os, sys; print(os.path.dirname(sys.executable))").Output()
	if err != nil {
		t.Skip("python3 is not installed") // make python, which installs it, runs this test
	}
	return strings.TrimSpace(string(out))
}

// git runs a command in a repository, and returns what it says.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	args = append([]string{"-C", dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.com"}, args...)
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// person starts runs, and decides what they ask.
type person struct {
	t   *testing.T
	url string
}

// answered is a decision, and what the person must have seen for it.
type answered struct {
	decision string
	sees     []string
}

// personRun is what a person reads of a run.
type personRun struct {
	PlanID, State, ErrorKind, Error string
	Result                          json.RawMessage
	Waits                           []struct {
		WaitID  string
		Preview *struct{ Text string }
		Plan    json.RawMessage
	}
}

// ask sends a request.
func (p person) ask(method, path string, body any, want int) (r personRun) {
	p.t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(string(sent)))
	if err != nil {
		p.t.Fatal(err)
	}

	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()

	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		p.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, b, err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		p.t.Fatalf("%s: %v", b, err)
	}
	return r
}

// errorMessages finds what went wrong in a result.
var errorMessages = regexp.MustCompile(`"(errorMessage|error)":"(\\.|[^"\\])*"`)

// plays runs something to its end, with the decisions in their order.
func (p person) plays(executor string, input fields, decisions ...answered) personRun {
	p.t.Helper()
	id := p.ask(http.MethodPost, "/api/v1/runs", fields{"executor": executor, "input": input}, http.StatusAccepted).PlanID
	for deadline := time.Now().Add(5 * time.Minute); ; {
		r := p.ask(http.MethodGet, "/api/v1/runs/"+id, nil, http.StatusOK)
		if record.State(r.State).Terminal() {
			if len(decisions) > 0 || r.State != "COMPLETED" {
				p.t.Fatalf("%s, %s, with %d open decisions: %s\n%s", r.State, r.ErrorKind, len(decisions), r.Error,
					errorMessages.FindAll(r.Result, -1))
			}
			return r
		}
		if len(r.Waits) > 0 {
			if len(decisions) == 0 {
				p.t.Fatalf("it asks: %+v", r.Waits[0])
			}
			p.decides(r, decisions[0])
			decisions = decisions[1:]
		}

		if time.Now().After(deadline) || pg.Pause(p.t.Context(), 20*time.Millisecond) != nil {
			p.t.Fatalf("run %s never ends: it is %s", id, r.State)
		}
	}
}

func (p person) decides(r personRun, a answered) {
	p.t.Helper()
	wait := r.Waits[0]
	seen := string(wait.Plan)
	if wait.Preview != nil {
		seen = wait.Preview.Text
	}

	for _, want := range a.sees {
		if !strings.Contains(seen, want) {
			p.t.Errorf("the person does not see %q in:\n%s", want, seen)
		}
	}
	p.ask(http.MethodPost, "/api/v1/runs/"+r.PlanID+"/waits/"+wait.WaitID, fields{"decision": a.decision, "by": "ann"},
		http.StatusOK)
}

// operation is one of a plan, and what its result must have.
type operation struct {
	tool, operation string
	params          fields
	result          string
}

// task is one that a role works on.
type task struct {
	role       string
	operations []operation
}

// tasks are those of the test by what a user asks for.
var tasks = map[string]task{
	"Fix the points of Python.": {"DEVELOPER", []operation{
		{"files", "search_in_files", fields{"pattern": "BUG", "include": "*.py"}, "points.py:2"},
		{"files", "read_file", fields{"path": "points.py"}, "cents // 10"},
		{"files", "edit_file",
			fields{"path": "points.py", "search": "cents // 10  # BUG: a euro is one point", "replace": "cents // 100"},
			"Edited points.py"},
		{"tests", "unittest", fields{}, "1 test passed"},
	}},
	"Fix the stock of Go.": {"DEVELOPER", []operation{
		{"search", "search_code", fields{"query": "how many pieces are left"}, "stock/stock.go"},
		{"files", "read_file", fields{"path": "stock/stock.go"}, "were + sold"},
		{"files", "edit_file",
			fields{"path": "stock/stock.go", "search": "were + sold // BUG: more is left than there was",
				"replace": "were - sold"}, "Edited stock/stock.go"},
		{"tests", "go", fields{"path": "./stock"}, "1 test passed"},
	}},
	"Is the shop well?": {"DEVOPS", []operation{
		{"http", "request", fields{"url": "http://" + shopAddress + "/health"}, "the shop is open"},
		{"docker", "list_containers", fields{}, "shop-web"},
		{"docker", "logs", fields{"container": "shop-web", "tail": 10}, "served in 2 ms"},
		{"shell", "lines", fields{"arguments": []string{"stock/stock.go"}}, "7 stock/stock.go"},
	}},
	"Lamps cost 5 more.": {"DATA", []operation{
		{"db", "schema", fields{"table": "item"}, "price"},
		{"db", "query", fields{"sql": "SELECT name, price FROM item WHERE name = $1", "parameters": []any{"lamp"}}, "20"},
		{"db", "execute", fields{"sql": "UPDATE item SET price = price + 5 WHERE name = $1", "parameters": []any{"lamp"}},
			"UPDATE 1"},
		{"db", "query", fields{"sql": "SELECT price FROM item WHERE name = $1", "parameters": []any{"lamp"}}, "25"},
	}},
}

// taskScenes has the plans of the tasks.
func taskScenes(t *testing.T) (scenes []scriptmodel.Scene) {
	t.Helper()
	for asked, one := range tasks {
		var steps []fields
		for _, o := range one.operations {
			steps = append(steps, fields{"tool": o.tool, "operation": o.operation, "params": o.params})
		}

		b, err := json.Marshal(fields{"reasoning": "Look, then act, then look again.", "steps": steps})
		if err != nil {
			t.Fatal(err)
		}
		scenes = append(scenes,
			scriptmodel.Scene{Name: asked, Match: scriptmodel.Match{User: asked},
				Turns: []scriptmodel.Turn{{Content: string(b)}}})
	}
	return scenes
}

// does plays a task, whose operations must all succeed.
func (p person) does(asked string, decisions ...answered) {
	p.t.Helper()
	one := tasks[asked]
	r := p.plays("plan", fields{"task": asked, "role": one.role}, decisions...)

	var got struct {
		Success    bool
		Operations []struct {
			Operation, Result string
			Success           bool
		}
	}

	if err := json.Unmarshal(r.Result, &got); err != nil || !got.Success || len(got.Operations) != len(one.operations) {
		p.t.Fatalf("%s %v", r.Result, err)
	}
	for i, o := range got.Operations {
		if want := one.operations[i]; !o.Success || o.Operation != want.operation ||
			!strings.Contains(o.Result, want.result) {
			p.t.Errorf("%+v, want %q", o, want.result)
		}
	}
}

func playTasks(p person, dir string) {
	p.does("Fix the points of Python.",
		answered{"approve", []string{"-    return cents // 10  # BUG", "+    return cents // 100\n"}})
	p.does("Fix the stock of Go.",
		answered{"approve", []string{"-\treturn were + sold // BUG", "+\treturn were - sold\n"}})
	if diff := git(p.t, dir, "diff", "--stat", "--name-only"); diff != "points.py\nstock/stock.go\n" {
		p.t.Errorf("changed: %q", diff)
	}
	git(p.t, dir, "commit", "-qam", "Fix points and stock")
}

// playOperation looks at the program of the project and at its containers.
func playOperation(p person) {
	listener := listenAt(p.t, shopAddress)
	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "the shop is open")
		})}
	go s.Serve(listener)
	p.t.Cleanup(func() { s.Close() })
	p.does("Is the shop well?")
}

// listenAt listens at an address that another run of this test may have for now.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || pg.Pause(ctx, 100*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// fakeDaemon is a daemon of Docker with a container of the shop and one of somebody else, and returns its socket.
func fakeDaemon(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	socket := filepath.Join(dir, "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	web := strings.Repeat("a", 64)
	answers := map[string]string{
		"/containers/json": `[{"Id": "` + web +
			`", "Names": ["/shop-web"], "Image": "shop:1", "State": "running", "Status": "Up 2 hours"},
			{"Id": "` + strings.Repeat("b", 64) + `", "Names": ["/other"], "Image": "postgres", "State": "running"}]`,
		"/containers/" + web + "/json": `{"Id": "` + web +
			`", "Name": "/shop-web", "State": {"Status": "running"}, "Config": {"Image": "shop:1"}}`,
		"/containers/" + web + "/logs": "\x01\x00\x00\x00\x00\x00\x00\x0fserved in 2 ms\n",
	}

	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, ok := answers[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			io.WriteString(w, answer)
		})}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	return socket
}

// shopLogin makes the table and the roles that the example configuration describes, and returns the URL of the login.
func shopLogin(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	login := fmt.Sprintf("agent_%d", time.Now().UnixNano())
	var statements []string
	for _, role := range []string{"shop_reader", "shop_writer"} {
		statements = append(statements, "DO $$ BEGIN CREATE ROLE "+role+"; EXCEPTION WHEN duplicate_object OR "+
			"unique_violation THEN NULL; END $$")
	}

	statements = append(statements,
		"CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL)",
		"INSERT INTO item VALUES (1, 'lamp', 20), (2, 'rug', 90)",
		"GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop_reader",
		"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO shop_writer",
		"CREATE ROLE "+login+" LOGIN NOINHERIT PASSWORD 'hunter2'", "GRANT shop_reader, shop_writer TO "+login)
	for _, sql := range statements {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}

	t.Cleanup(func() {
		for _, sql := range []string{"DROP ROLE " + login, "DROP OWNED BY shop_reader, shop_writer"} {
			if _, err := db.Pool.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})

	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(login, "hunter2")
	return u.String()
}

func playData(p person, db *pgtest.DB) {
	p.does("Lamps cost 5 more.", answered{"approve", []string{"UPDATE item SET price = price + 5", "lamp", "shop_writer"}})
	var price int
	if err := db.Pool.QueryRow(p.t.Context(), "SELECT price FROM item WHERE name = 'lamp'").Scan(&price); err != nil ||
		price != 25 {
		p.t.Errorf("a lamp costs %d, %v", price, err)
	}
}

// sharedPatch moves what two packages have into a third one, as a model writes it: numbers of lines are off, and one
// line of invoice.go is remembered wrongly.
const sharedPatch = `--- /dev/null
+++ b/price/price.go
@@ -0,0 +1,18 @@
+// Package price says what things cost together.
+package price
+
+// Sum returns what things cost, in cents, without the discount.
+func Sum(cents []int) int {
+	total := 0
+	for _, each := range cents {
+		total += each
+	}
+	if total > 10000 { // a tenth less from 100 euros on
+		total -= total / 10
+	}
+	if total > 50000 { // and a gift
+		total -= 500
+	}
+	return total
+}
--- a/cart/cart.go
+++ b/cart/cart.go
@@ -1,16 +1,7 @@
 package cart
 
+import "shop/price"
+
 // Total returns what a cart costs, in cents, without the discount.
 func Total(cents []int) int {
-	total := 0
-	for _, each := range cents {
-		total += each
-	}
-	if total > 10000 { // a tenth less from 100 euros on
-		total -= total / 10
-	}
-	if total > 50000 { // and a gift
-		total -= 500
-	}
-	return total
+	return price.Sum(cents)
 }
--- a/invoice/invoice.go
+++ b/invoice/invoice.go
@@ -1,5 +1,7 @@
 package invoice
 
+import "shop/price"
+
 // Days is how long a customer has for that.
@@ -4,14 +6,4 @@
 func Sum(cents []int) int {
-	total := 0
-	for _, each := range cents {
-		total += each
-	}
-	if total > WRONG { // a tenth less from 100 euros on
-		total -= total / 10
-	}
-	if total > 50000 { // and a gift
-		total -= 500
-	}
-	return total
+	return price.Sum(cents)
 }
`

// refactoringScenes plays the four agents. They say what is wrong if a tool does not show what it should.
func refactoringScenes(t *testing.T) []scriptmodel.Scene {
	t.Helper()
	changed := []string{"cart/cart.go", "invoice/invoice.go", "price/price.go"}
	actions := [][2]string{
		{"RAG_SEARCH", "Find the sums"}, {"CODE_ANALYSIS", "Measure what is there twice"},
		{"REFACTORING", "Put it in one place"}, {"GIT", "Commit the change"},
	}

	var steps []fields
	for i, each := range actions {
		steps = append(steps, fields{
			"stepNumber": i + 1, "agentType": each[0], "action": each[1], "justification": "It was asked for",
			"expectedOutput": "A text", "dependencies": upTo(i),
		})
	}
	plan, err := json.Marshal(fields{"goal": "The sum in one place", "estimatedDuration": 60, "steps": steps})
	if err != nil {
		t.Fatal(err)
	}

	scene := func(action string, turns ...scriptmodel.Turn) scriptmodel.Scene {
		return scriptmodel.Scene{Name: action, Match: scriptmodel.Match{User: "Your step: " + action + "\n"}, Turns: turns}
	}
	patch := func(line string) scriptmodel.Turn {
		return calls("code-apply_refactoring", fields{"patch": strings.Replace(sharedPatch, "WRONG", line, 1)})
	}
	line := regexp.MustCompile(`(?m)^ +13\t\tif total > (\d+) \{ // a tenth`)
	repairs := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		last := string(r.Messages[len(r.Messages)-1].Content)
		shown := line.FindStringSubmatch(last)
		if shown == nil {
			return scriptmodel.Turn{Content: "FAILED: the error does not show the line: " + last}, nil
		}
		return patch(shown[1]), nil
	}}

	return []scriptmodel.Scene{
		{Name: "plan", Match: scriptmodel.Match{System: "Plan how"}, Turns: []scriptmodel.Turn{{Content: string(plan)}}},
		{Name: "answer", Match: scriptmodel.Match{System: "They have worked"},
			Turns: []scriptmodel.Turn{{Content: "The sum is in one place."}}},
		scene(actions[0][1], calls("search-search_code", fields{"query": "what things cost in cents without the discount"}),
			reads("cart/cart.go", scriptmodel.Turn{Content: "In cart/cart.go and invoice/invoice.go."})),
		scene(actions[1][1], calls("code-detect_code_smells", fields{"path": "."}),
			reads("invoice/invoice.go", scriptmodel.Turn{Content: "It is there twice."})),
		scene(actions[2][1], calls("files-read_file", fields{"path": "invoice/invoice.go", "numbered": true}),
			reads("what an invoice is about", patch("5000")), repairs,
			reads("price/price.go", calls("tests-go", fields{})),
			reads("3 tests passed", scriptmodel.Turn{Content: "It is in price, and the tests pass."})),
		scene(actions[3][1], calls("git-status", fields{}),
			reads("price", calls("git-commit", fields{"message": "Sum up in one place", "files": changed})),
			reads("Committed as ", scriptmodel.Turn{Content: "Committed."})),
	}
}

// upTo returns the numbers from 1 to n that a step depends on.
func upTo(n int) []int {
	if n == 0 {
		return []int{}
	}
	return []int{n}
}

// reads goes on if the last message has a text. Otherwise the step fails, and says why.
func reads(text string, next scriptmodel.Turn) scriptmodel.Turn {
	return scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		if last := string(r.Messages[len(r.Messages)-1].Content); !strings.Contains(last, text) {
			return scriptmodel.Turn{Content: fmt.Sprintf("FAILED: %q is not in: %s", text, last)}, nil
		}
		return next, nil
	}}
}

func playRefactoring(p person, dir string) {
	r := p.plays("orchestrator", fields{"request": "Find code that is there twice, and put it in one place."},
		answered{"accept", []string{"REFACTORING", "Put it in one place"}},
		answered{"approve", []string{"+++ b/price/price.go", "+\treturn price.Sum(cents)", "@@ -1,20 +1,12 @@"}},
		answered{"approve", []string{"Sum up in one place", "invoice/invoice.go", "+\treturn price.Sum(cents)"}})
	if !strings.Contains(string(r.Result), "The sum is in one place.") {
		p.t.Errorf("%s", r.Result)
	}

	want := "Actlog: Sum up in one place\n\ncart/cart.go\ninvoice/invoice.go\nprice/price.go\n"
	if log := git(p.t, dir, "log", "-1", "--format=%an: %s", "--name-only"); log != want {
		p.t.Errorf("%q", log)
	}
	if left := git(p.t, dir, "status", "--porcelain"); left != "" {
		p.t.Errorf("not committed: %q", left)
	}
}
