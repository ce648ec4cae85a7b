package tests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/tests"
)

// failed is a failed test in a result.
type failed struct {
	Name, Suite, File, Message string
	Line                       int
}

// results are what the artifact test_results says.
type results struct {
	Command     []string
	Passed      bool
	Counts      *struct{ Passed, Failed, Skipped int }
	FailedTests []failed
	MoreFailed  int
	Coverage    *struct {
		Percent float64
		Of      string
		Files   []struct {
			File    string
			Percent float64
		}
	}
	Output string
}

func resultsOf(t *testing.T, r tool.Result) (all results) {
	t.Helper()
	if len(r.Artifacts) != 1 || r.Artifacts[0].Name != "test_results" {
		t.Fatalf("r = %+v", r)
	}
	if err := json.Unmarshal(r.Artifacts[0].Value, &all); err != nil {
		t.Fatal(err)
	}

	for i := range all.FailedTests { // what the first line says is enough
		all.FailedTests[i].Message, _, _ = strings.Cut(all.FailedTests[i].Message, "\n")
	}
	return all
}

func ask(t *testing.T, called tool.Tool, arguments string) tool.Result {
	t.Helper()
	result, err := tool.Do(t.Context(), called, called.Spec().Policy, tool.Call{Arguments: json.RawMessage(arguments)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// replays returns a tool whose command writes what a program once wrote, and fails.
func replays(t *testing.T, format tests.Format, sample, script string) tool.Tool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", sample))
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	write(t, dir, "sample", strings.ReplaceAll(string(text), "/work/shop", dir))
	write(t, dir, "go.mod", "module example.com/shop\n")

	c := tests.Command{Name: "unit", Dir: dir, Arguments: []string{"sh", "-c", script, "unit"}, Format: format}
	if strings.Contains(script, "target/") {
		c.Report = "**/target/surefire-reports/*.xml"
	}
	return only(t, c)
}

// Reports that the usual programs wrote say how many tests ended in which way, and which failed, where and why.
func TestReports(t *testing.T) {
	t.Parallel()
	const toReport = `cp sample {report}; exit 1`

	for _, row := range []struct {
		sample, script, summary string
		format                  tests.Format
		want                    []failed
	}{
		{"go.json", `cat sample; exit 1`, "Tests failed (exit code 1): 2 tests passed, 4 failed, 1 skipped", tests.Go,
			[]failed{
				{"TestHalf/odd_<one>", "example.com/shop/a", "a/a_test.go", "a_test.go:8: half of 3", 10},
				{"example.com/shop/broken", "", "broken/x_test.go", "# example.com/shop/broken [example.com/shop/broken.test]", 5},
				{"TestPanics", "example.com/shop/b", "b/b_test.go", "panic: assignment to entry in nil map [recovered, repanicked]",
					7},
			}},
		{"pytest.xml", toReport, "Tests failed (exit code 1): 2 tests passed, 3 failed, 1 skipped", tests.JUnit, []failed{
			{"tests/test_shop.py::TestHalf::test_half[3]", "", "tests/test_shop.py", "ValueError: odd: 3", 13},
			{"tests/test_shop.py::TestHalf::test_wrong", "", "tests/test_shop.py", "AssertionError: a < b & c", 16},
			{"tests/test_shop.py::test_fixture", "", "tests/test_shop.py",
				`failed on setup with "file $DIR/tests/test_shop.py, line 24`, 24},
		}},
		{"pytest-collection.xml", toReport, "Tests failed (exit code 1): 0 tests passed, 1 failed", tests.JUnit, []failed{
			{"tests/test_broken.py", "", "tests/test_broken.py", "collection failure", 0},
		}},
		{"TEST-com.example.ShopTest.xml",
			`mkdir -p m/target/surefire-reports && cp sample m/target/surefire-reports/TEST-a.xml; exit 1`,
			"Tests failed (exit code 1): 1 test passed, 2 failed, 1 skipped", tests.JUnit, []failed{
				{"com.example.ShopTest#wrong", "", "ShopTest.java", "a < b & c ==> expected: <3> but was: <2>", 16},
				{"com.example.ShopTest#throwsIt", "", "ShopTest.java", "odd: 3", 21},
			}},
		{"jest.json", toReport, "Tests failed (exit code 1): 1 test passed, 3 failed, 1 skipped", tests.Jest, []failed{
			{"sum adds <wrongly> & says so", "", "src/sum.test.js",
				"Error: expect(received).toBe(expected) // Object.is equality", 6},
			{"half", "", "src/sum.test.js", "Error: odd: 3", 10},
			{"src/broken.test.js", "", "src/broken.test.js", "● Test suite failed to run", 0},
		}},
		{"vitest.json", toReport, "Tests failed (exit code 1): 1 test passed, 3 failed, 1 skipped", tests.Jest, []failed{
			{"src/broken.test.js", "", "src/broken.test.js",
				"Cannot find module './nothing-here.js' imported from '$DIR/src/broken.test.js'", 0},
			{"sum adds <wrongly> & says so", "", "src/sum.test.js", "AssertionError: expected 3 to be 4 // Object.is equality",
				7},
			{"half", "", "src/sum.test.js", "Error: odd: 3", 11},
		}},
	} {
		t.Run(row.sample, func(t *testing.T) {
			t.Parallel()
			r := ask(t, replays(t, row.format, row.sample, row.script), `{}`)
			got := resultsOf(t, r).FailedTests
			for i := range got {
				got[i].Message = inTestDir.ReplaceAllString(got[i].Message, "$$DIR/")
			}

			if diff := cmp.Diff(row.want, got); diff != "" || r.Summary != row.summary || !r.Failed {
				t.Errorf("r.Summary = %q (-want +got):\n%s", r.Summary, diff)
			}
			for _, f := range row.want {
				if !strings.Contains(r.Text, "FAILED "+f.Name) {
					t.Errorf("%s is not in %s", f.Name, r.Text)
				}
			}
		})
	}
}

// Of what go test says in JSON the model reads what it would have read without: of tests that pass, nothing.
func TestGoOutput(t *testing.T) {
	t.Parallel()
	r := ask(t, replays(t, tests.Go, "go.json", `cat sample; echo 'not JSON'; printf '{"half":'; exit 1`), `{}`)

	for _, want := range []string{"--- FAIL: TestHalf/odd_<one>", "a_test.go:10: half of 3: odd",
		"FAIL\texample.com/shop/a\t0.003s", "x_test.go:5:28: undefined", "nil map", "not JSON\n{\"half\":"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("%q is not in\n%s", want, r.Text)
		}
	}
	for _, out := range []string{"=== RUN", "TestFine", "half of 2", `"Action"`} {
		if strings.Contains(r.Text, out) {
			t.Errorf("%q is in\n%s", out, r.Text)
		}
	}
}

// Only reports that the run wrote count.
func TestOldReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "target", "surefire-reports")
	if err := os.MkdirAll(at, 0o750); err != nil {
		t.Fatal(err)
	}

	write(t, at, "TEST-old.xml",
		`<testsuite><testcase name="old" classname="a.B"><failure message="m"/></testcase></testsuite>`)
	write(t, dir, "mvn",
		"#!/bin/sh\necho '"+`<testsuite><testcase name="new" classname="a.B"/></testsuite>`+
			"' > target/surefire-reports/TEST-new.xml\n")

	r := ask(t, only(t, tests.Command{Name: "mvn", Dir: dir, Arguments: []string{"./mvn", "test"}}), `{}`)
	if r.Failed || r.Summary != "1 test passed" {
		t.Errorf("ask = %+v", r)
	}

	write(t, dir, "mvn", "#!/bin/sh\necho 'Tests run: nothing'; exit 1\n")
	if r := ask(t, only(t, tests.Command{Name: "mvn", Dir: dir, Arguments: []string{"./mvn", "test"}}),
		`{}`); r.Summary != "Tests failed (exit code 1)" {
		t.Errorf("ask = %+v", r)
	}
}

// What tests write as their report may be anything. Nothing outside is read, and nothing takes long or much room.
func TestHostileReports(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside.xml")
	planted := `<testsuite><testcase name="hunter2" classname="hunter2"><failure message="hunter2">hunter2</failure></testcase></testsuite>`
	if err := os.WriteFile(outside, []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, script := range map[string]string{
		"link out":       `ln -s ` + outside + ` {report}`,
		"link below":     `ln -s sample.xml {report}`,
		"hard link":      `ln ` + outside + ` {report}`,
		"pipe":           `mkfifo {report}`,
		"folder":         `mkdir {report}`,
		"device":         `ln -s /dev/zero {report}`,
		"folder is gone": `d=$(dirname {report}); rm -r "$d"; ln -s ` + filepath.Dir(outside) + ` "$d"`,
		"endless":        `yes '<testcase name="a">' | head -c 36000000 > {report}`,
		"deep":           `yes '<testsuite>' | head -n 1000000 > {report}`,
		"entities": `printf '<!DOCTYPE x [<!ENTITY a SYSTEM "file://` + outside +
			`">]><testsuite><testcase name="&a;"/></testsuite>' > {report}`,
		"zeroes": `head -c 1000000 /dev/zero > {report}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, format := range []tests.Format{tests.JUnit, tests.Jest} {
				c := tests.Command{Name: "unit", Dir: t.TempDir(),
					Arguments: []string{"sh", "-c", script + "; echo '7 passed'", "unit"}, Format: format}
				if r := ask(t, only(t, c), `{}`); strings.Contains(r.Text+string(r.Data), "hunter2") || r.Failed ||
					r.Summary != "7 tests passed" {
					t.Errorf("%s: %+v", format, r.Summary)
				}
			}
		})
	}

	many := `{ echo '<testsuite>'; i=0; while [ $i -lt 500 ]; do i=$((i+1)); printf '<testcase name="t%s\033[31m" classname="c"><failure message="%s"/></testcase>' $i "$(head -c 60 /dev/zero | tr '\0' '<' | sed 's/</\&lt;/g')"; done; } > {report}; exit 1`
	c := tests.Command{Name: "unit", Dir: t.TempDir(),
		Arguments: []string{"sh", "-c", strings.ReplaceAll(many, `\033`, ` `), "unit"}, Format: tests.JUnit}
	r := ask(t, only(t, c), `{}`)
	if all := resultsOf(t, r); len(all.FailedTests) != 50 || all.MoreFailed != 450 || all.Counts.Failed != 500 ||
		len(r.Text) > tool.MaxText || len(r.Data) == 0 {
		t.Errorf("%d failed, %d more, %d and %d bytes", len(all.FailedTests), all.MoreFailed, len(r.Text), len(r.Data))
	}
}

// Long messages, which grow as JSON, leave the report whole.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	script := `i=0; while [ $i -lt 60 ]; do i=$((i+1)); printf '{"Action":"output","Package":"p","Test":"T%s","Output":"' $i; head -c 8000 /dev/zero | tr '\0' '<'; printf '"}\n{"Action":"fail","Package":"p","Test":"T%s"}\n' $i; done; exit 1`
	r := ask(t, only(t, tests.Command{Name: "unit", Dir: t.TempDir(), Arguments: []string{"sh", "-c", script},
		Format: tests.Go}), `{}`)
	all := resultsOf(t, r)

	if all.Counts.Failed != 60 || len(all.FailedTests)+all.MoreFailed != 60 || len(all.FailedTests) == 0 ||
		len(r.Data) == 0 || len(r.Data) > tool.MaxText || len(r.Text) > tool.MaxText {
		t.Errorf("%+v: %d failed, %d more; %d and %d bytes", all.Counts, len(all.FailedTests), all.MoreFailed, len(r.Text),
			len(r.Data))
	}
}

// Coverage is measured if it is asked for, and if the program gives it.
func TestCoverage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		script, sample, summary, file string
		percent, ofFile               float64
	}{
		"go": {
			`for a; do case $a in -coverprofile=*) cp sample "${a#*=}";; esac; done; echo '{"Action":"pass","Package":"p","Test":"T"}'`, "cover.out", "1 test passed, 100.0% of the statements covered", "example.com/shop/a/a.go", 100, 100,
		},
		"pytest": {`for a; do case $a in --cov-report=xml:*) cp sample "${a#*:}";; esac; done; echo '2 passed'`,
			"coverage.xml", "2 tests passed, 90.9% of the lines covered", "tests/test_shop.py", 90.9, 87.5},
		"jest": {
			`for a; do case $a in --coverageDirectory=*) mkdir "${a#*=}"; cp sample "${a#*=}/coverage-summary.json";; esac; done; echo '2 passed'`, "coverage-summary.json", "2 tests passed, 100.0% of the lines covered", "src/sum.js", 100, 100,
		},
		"vitest": {
			`for a; do case $a in --coverage.reportsDirectory=*) mkdir "${a#*=}"; cp sample "${a#*=}/coverage-summary.json";; esac; done; echo '2 passed'`, "coverage-summary.json", "2 tests passed, 100.0% of the lines covered", "src/sum.js", 100, 100,
		},
	} {
		dir := t.TempDir()
		text, err := os.ReadFile(filepath.Join("testdata", row.sample))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "sample", strings.ReplaceAll(string(text), "/work/shop", dir))
		write(t, dir, name, "#!/bin/sh\n"+row.script+"\n")
		called := only(t, tests.Command{Name: "unit", Dir: dir, Arguments: []string{"./" + name, "test"}})

		r := ask(t, called, `{"coverage":true}`)
		if c := resultsOf(t, r).Coverage; c == nil || c.Percent != row.percent || c.Files[0].File != row.file ||
			c.Files[0].Percent != row.ofFile || r.Summary != row.summary {
			t.Errorf("%s: %q, %+v", name, r.Summary, c)
		}
		if r := ask(t, called, `{}`); resultsOf(t, r).Coverage != nil ||
			strings.Contains(strings.Join(resultsOf(t, r).Command, " "), "cov") {
			t.Errorf("%s: it is measured unasked: %s", name, r.Data)
		}
	}

	if r := ask(t, unit(t, t.TempDir(), "true"), `{"coverage":true}`); !r.Failed ||
		!strings.HasPrefix(r.Text, "coverage: sh has no known way") {
		t.Errorf("ask = %+v", r)
	}
}
