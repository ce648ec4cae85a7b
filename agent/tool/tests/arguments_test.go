package tests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/tests"
)

// inTestDir is the beginning of a path in a folder of a test.
var inTestDir = regexp.MustCompile(`/[^\s"']*/Test[\w.]+/\d+/`)

// echoes returns the tool of a command whose program writes its arguments, one in a line.
func echoes(t *testing.T, command ...string) (called tool.Tool, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"src/a/x.go", "tests/test_a.py", "src/test/java/com/example/ShopTest.java",
		"mod/pom.xml", "@evil", "-v"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o750); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, "")
	}

	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "bin/"+command[0], "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
	return only(t, tests.Command{Name: "unit", Dir: dir,
		Arguments: append([]string{"./bin/" + command[0]}, command[1:]...)}), dir
}

// reported is the file of a report in arguments.
var reported = regexp.MustCompile(`/\S*/actlog-tests-\w+/`)

// A model names what is tested. Each program gets it in its own way, and where it reads it.
func TestArguments(t *testing.T) {
	t.Parallel()
	const junit, vitest = "-o junit_family=xunit1 --junitxml=$TMP/report",
		"--reporter=default --reporter=json --outputFile.json=$TMP/report"
	for _, row := range []struct{ command, arguments, want string }{
		{"go test", `{}`, "test -json"},
		{"go test -json ./...", `{}`, "test -json ./..."},
		{"go test ./...", `{"path":"./src/..."}`, "test -json ./src/..."},
		{"go test ./...", `{"path":"src/a"}`, "test -json ./src/a"},
		{"go test ./...", `{"path":"./..."}`, "test -json ./..."},
		{"go test -race ./... -args -x", `{"path":"src/a","select":"^TestX$"}`,
			"test -race -json -run=^TestX$ ./src/a -args -x"},
		{"go test -coverpkg ./...", `{"path":"src/a"}`, "test -coverpkg ./... -json ./src/a"},
		{"go test", `{"coverage":true}`, "test -json -coverprofile=$TMP/cover.out"},
		{"pytest -q", `{"path":"tests/test_a.py::TestX::test_y[1-a b]"}`, "-q " + junit +
			" ./tests/test_a.py::TestX::test_y[1-a b]"},
		{"pytest", `{"path":"tests","select":"a and not b","markers":"slow"}`, junit + " -k a and not b -m slow ./tests"},
		{"pytest --junitxml=own.xml", `{}`, "--junitxml=own.xml"},
		{"jest", `{"select":"adds$"}`, "--testLocationInResults --json --outputFile=$TMP/report --testNamePattern=adds$"},
		{"vitest run", `{"path":"tests"}`, "run " + vitest + " ./tests"},
		{"mvn -q test", `{"select":"ShopTest#wrong","markers":"slow"}`, "-q test -Dtest=ShopTest#wrong -Dgroups=slow"},
		{"mvn test", `{"path":"src/test/java/com/example/ShopTest.java"}`, "test -Dtest=ShopTest"},
		{"mvn test", `{"path":"mod"}`, "test -pl ./mod"},
		{"gradle test", `{"select":"*ShopTest"}`, "test --tests *ShopTest"},
		{"uv run pytest", `{}`, "run pytest " + junit},
		{"make check", `{"path":"src"}`, "check ./src"},
	} {
		called, _ := echoes(t, strings.Fields(row.command)...)
		r := ask(t, called, row.arguments)
		_, got, _ := strings.Cut(strings.TrimSpace(r.Text), "\n")
		got = reported.ReplaceAllString(strings.ReplaceAll(got, "\n", " "), "$$TMP/")

		if got != row.want {
			t.Errorf("%s %s:\n%s, want\n%s", row.command, row.arguments, got, row.want)
		}
		if shown := strings.Join(resultsOf(t, r).Command, " "); strings.Contains(shown, "actlog-tests-") {
			t.Errorf("%s: the command names a folder that is gone: %s", row.command, shown)
		}
	}
}

// No argument of a model is an option, a file of arguments, or anything to a shell.
func TestInjection(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"go test", "pytest", "jest", "vitest run", "mvn test", "gradle test", "make check"} {
		called, dir := echoes(t, strings.Fields(command)...)
		for _, arguments := range []string{
			`{"select":"-exec=touch x"}`, `{"select":"--rootdir=/"}`, `{"select":"-"}`, `{"select":"@evil"}`, `{"select":" "}`,
			`{"select":"a\nb"}`, `{"select":"a\u0000b"}`,
			`{"markers":"-p evil"}`, `{"markers":"@evil"}`, `{"select":"` + strings.Repeat("a", 501) + `"}`, `{"path":"` +
				strings.Repeat("a", 501) + `"}`,
			`{"path":"../..."}`, `{"path":"/..."}`, `{"path":"src..."}`, `{"path":"none/..."}`, `{"path":"--x/..."}`,
			`{"path":"../x::y"}`, `{"path":"none.py::y"}`,
			`{"path":"-exec::x"}`, `{"path":"/etc/passwd"}`, `{"path":"example.com/x"}`, `{"path":["a"]}`, `{"other":"x"}`,
		} {
			if r := ask(t, called, arguments); !r.Failed || strings.Contains(r.Text, "touch x\n") || len(r.Artifacts) > 0 {
				t.Errorf("%s %s: %+v", command, arguments, r)
			}
		}

		for _, path := range []string{"@evil", "-v"} { // they are files
			r := ask(t, called, `{"path":"`+path+`"}`)
			if command != "gradle test" && !strings.Contains(r.Text, "./"+path) {
				t.Errorf("%s %s: %+v", command, path, r)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
			t.Errorf("%s: a program ran", command)
		}
	}

	pytest, _ := echoes(t, "pytest")
	if r := ask(t, pytest, `{"path":"tests/test_a.py::"}`); !r.Failed ||
		!strings.Contains(r.Text, "does not name a test") {
		t.Errorf("ask = %+v", r)
	}

	for _, arguments := range []string{`{"path":"$(touch x)"}`, `{"path":"a; ls"}`, "{\"path\":\"`ls`\"}",
		`{"path":"src --config=x"}`} {
		npm, dir := echoes(t, "npm", "test")
		for _, name := range []string{"$(touch x)", "a; ls", "`ls`", "src --config=x"} {
			write(t, dir, name, "")
		}
		if r := ask(t, npm, arguments); !r.Failed || !strings.Contains(r.Text, "hands it to a shell") {
			t.Errorf("%s: %+v", arguments, r)
		}
	}
}

// A command whose format and report do not go together is a mistake of the configuration.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		command tests.Command
		want    string
	}{
		{tests.Command{Arguments: []string{"x"}, Format: "tap"}, `format: there is no "tap"`},
		{tests.Command{Arguments: []string{"x"}, Format: tests.JUnit}, "report: say which files have the report"},
		{tests.Command{Arguments: []string{"x"}, Report: "../*.xml"}, "report: "},
		{tests.Command{Arguments: []string{"x", "--log={report}"}, Format: tests.JUnit}, ""},
		{tests.Command{Arguments: []string{"x"}, Format: tests.JUnit, Report: "out/*.xml"}, ""},
		{tests.Command{Arguments: []string{"pytest"}, Format: tests.Text}, ""},
		{tests.Command{Arguments: []string{"make", "check"}, Format: tests.Go}, ""},
	} {
		err := row.command.Check()
		if (err == nil) != (row.want == "") || err != nil && !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.command, err, row.want)
		}
	}

	npm, _ := echoes(t, "npm", "test")
	if r := ask(t, npm, `{}`); !strings.HasSuffix(strings.TrimSpace(r.Text), "\ntest") {
		t.Errorf("ask = %+v", r)
	}

	dir := t.TempDir()
	write(t, dir, "npm", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
	r := ask(t, only(t, tests.Command{Name: "unit", Dir: dir, Arguments: []string{"./npm", "test"}, Format: tests.Jest}),
		`{"select":"adds"}`)
	if !strings.Contains(r.Text, "test\n--\n--testLocationInResults\n--json\n") ||
		!strings.Contains(r.Text, "--testNamePattern=adds") {
		t.Errorf("ask = %+v", r)
	}
}
