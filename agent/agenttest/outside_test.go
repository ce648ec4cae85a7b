package agenttest_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/testkit/testdb"
)

// TestOutside: a module that is not this one tests its agents, as the documentation shows, without a TestMain. Its
// server ends with its tests, also if they are killed.
func TestOutside(t *testing.T) {
	t.Parallel()
	house, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                  moduleOutside(t, house),
		"go.sum":                  readFile(t, filepath.Join(house, "go.sum")),
		"agents_test.go":          documented(t, house),
		"testdata/order-7.ndjson": readFile(t, filepath.Join("testdata", "order-7.ndjson")),
		"waits_test.go": "package shop\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n\n\t" +
			"\"github.com/actlog/actlog/agent/agenttest\"\n)\n\n" +
			"func TestWaits(t *testing.T) {\n\tif os.Getenv(\"WAITS\") == \"\" {\n\t\tt.Skip()\n\t}\n" +
			"\tfmt.Println(\"\\nurl \" + agenttest.Database(t))\n\tselect {}\n}\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	program := filepath.Join(dir, "shop.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-c", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}

	test := exec.CommandContext(t.Context(), program, "-test.v")
	test.Dir, test.Env = dir, alone()
	if out, err := test.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestClerk") {
		t.Fatalf("the tests outside: %v\n%s", err, out)
	}
	killed(t, program)
}

// alone is the environment of a test that has to start a server of its own.
func alone() (env []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, testdb.URLEnv+"=") && !strings.HasPrefix(kv, pgtest.URLEnv+"=") {
			env = append(env, kv)
		}
	}
	return env
}

// moduleOutside returns the go.mod of a module that needs this one, with the versions that this one has.
func moduleOutside(t *testing.T, house string) string {
	t.Helper()
	own := readFile(t, filepath.Join(house, "go.mod"))
	return strings.Replace(own, "module github.com/actlog/actlog", "module example.com/shop", 1) +
		"\nrequire github.com/actlog/actlog v0.0.0\n\nreplace github.com/actlog/actlog => " + house + "\n"
}

// documented returns the test file of the documentation.
func documented(t *testing.T, house string) string {
	t.Helper()
	_, section, _ := strings.Cut(readFile(t, filepath.Join(house, "docs", "runtime.md")), "## Test your agents")
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(section)
	if block == nil {
		t.Fatal("the documentation has no test")
	}
	return block[1]
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// killed checks that the server of tests that are killed ends.
func killed(t *testing.T, program string) {
	t.Helper()
	test := exec.CommandContext(t.Context(), program, "-test.run=^TestWaits$")
	test.Env = append(alone(), "WAITS=1")
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}

	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url, _ = strings.CutPrefix(lines.Text(), "url ")
		if !strings.HasPrefix(url, "postgres") {
			url = ""
		}
	}
	if err := reach(t, url); err != nil {
		t.Fatalf("the server of the tests: %v", err)
	}

	if err := test.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = test.Wait() // it was killed
	storetest.Until(t, "the server has ended", func() bool { return reach(t, url) != nil })
}

func reach(t *testing.T, url string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		err = conn.Close(t.Context())
	}
	return err
}
