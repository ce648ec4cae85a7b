package tests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool/tests"
)

// shops are small projects with tests, some of which fail, by the program that runs them.
var shops = map[string]map[string]string{
	"go": {
		"go.mod": "module example.com/shop\n\ngo 1.24\n",
		"a/a.go": "package a\n\nfunc Half(n int) int { return n / 2 }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestHalf(t *testing.T) {\n\tif Half(4) != 3 {\n" +
			"\t\tt.Error(\"half of 4\")\n\t}\n}\n\nfunc TestFine(t *testing.T) {}\n",
	},
	"pytest": {
		"tests/test_a.py": "import pytest\n\n\nclass TestX:\n    def test_wrong(self):\n        assert 1 == 2\n\n" +
			"    def test_fine(self):\n        pass\n\n\n" +
			"@pytest.mark.skip\ndef test_later():\n    pass\n",
	},
	"mvn": {
		"pom.xml": `<project><modelVersion>4.0.0</modelVersion><groupId>com.example</groupId><artifactId>shop</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.10.2</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin></plugins></build></project>`,
		"src/test/java/ShopTest.java": "import static org.junit.jupiter.api.Assertions.assertEquals;\n\n" +
			"import org.junit.jupiter.api.Test;\n\n" +
			"class ShopTest {\n  @Test\n  void wrong() {\n    assertEquals(1, 2);\n  }\n\n  @Test\n  void fine() {}\n}\n",
	},
	"jest": {
		"package.json": `{"name":"shop","private":true}`,
		"a.test.js":    "test('fine', () => {});\ntest('wrong', () => {\n  expect(1).toBe(2);\n});\n",
	},
	"vitest": {
		"package.json": `{"name":"shop","private":true,"type":"module"}`,
		"a.test.js": "import { expect, test } from 'vitest';\ntest('fine', () => {});\ntest('wrong', () => {\n" +
			"  expect(1).toBe(2);\n});\n",
	},
}

// shop makes the project of a program in a new folder.
func shop(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range shops[program] {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o750); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, text)
	}
	return dir
}

// works skips the test if a program is not there.
func works(t *testing.T, program ...string) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), program[0], program[1:]...).Run(); err != nil {
		t.Skipf("%s does not run here (%v); what it once wrote is in testdata and read always", strings.Join(program, " "),
			err)
	}
}

// goCache returns the folder in which Go keeps what it built.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// installed lets a folder have the packages of Node that a variable names, as nobody downloads any for a test.
func installed(t *testing.T, dir, program string) []string {
	t.Helper()
	modules := os.Getenv("ACTLOG_NODE_MODULES")
	if _, err := os.Stat(filepath.Join(modules, ".bin", program)); modules == "" || err != nil {
		t.Skipf("ACTLOG_NODE_MODULES names no folder node_modules with %s; what it once wrote is in testdata and read always",
			program)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return []string{"node", filepath.Join(modules, ".bin", program)}
}

// Real programs run in the sandbox, take the arguments, and write reports that are read, also when tests fail.
func TestRealPrograms(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		program string
		command []string
		all     string // the summary of all tests
		want    failed
		some    string // arguments for those that pass
		passed  string
	}{
		{
			"go", []string{"go", "test", "./..."}, "Tests failed (exit code 1): 1 test passed, 1 failed",
			failed{"TestHalf", "example.com/shop/a", "a/a_test.go", "a_test.go:7: half of 4", 7},
			`{"path":"./a/...","select":"Fine","coverage":true}`, "1 test passed, 0.0% of the statements covered",
		},
		{
			"pytest", []string{"python3", "-m", "pytest", "-q"},
			"Tests failed (exit code 1): 1 test passed, 1 failed, 1 skipped",
			failed{"tests/test_a.py::TestX::test_wrong", "", "tests/test_a.py", "assert 1 == 2", 6},
			`{"path":"tests/test_a.py::TestX::test_fine"}`, "1 test passed",
		},
		{
			"mvn", []string{"mvn", "-o", "-q", "-B", "test"}, "Tests failed (exit code 1): 1 test passed, 1 failed",
			failed{"ShopTest#wrong", "", "ShopTest.java", "expected: <1> but was: <2>", 8}, `{"select":"ShopTest#fine"}`,
			"1 test passed",
		},
		{
			"jest", nil, "Tests failed (exit code 1): 1 test passed, 1 failed",
			failed{"wrong", "", "a.test.js", "Error: expect(received).toBe(expected) // Object.is equality", 3},
			`{"path":"a.test.js","select":"fine"}`, "1 test passed, 1 skipped",
		},
		{
			"vitest", nil, "Tests failed (exit code 1): 1 test passed, 1 failed",
			failed{"wrong", "", "a.test.js", "AssertionError: expected 1 to be 2 // Object.is equality", 4},
			`{"path":"a.test.js","select":"fine"}`, "1 test passed, 1 skipped",
		},
	} {
		t.Run(row.program, func(t *testing.T) {
			t.Parallel()
			dir := shop(t, row.program)
			box, env := sandbox.Sandbox{}, map[string]string{}
			switch row.program {
			case "go": // else it builds the standard library for each folder
				cache := goCache(t)
				box.Write, env = []string{cache}, map[string]string{"GOCACHE": cache}
			case "pytest":
				works(t, "python3", "-c", "import pytest")

			case "mvn":
				if os.Getenv("ACTLOG_TEST_MAVEN") == "" {
					t.Skip("it takes minutes, and wants packages in ~/.m2: ACTLOG_TEST_MAVEN is not set; what it once wrote is in " +
						"testdata and read always")
				}
				works(t, "mvn", "-o", "-q", "-B", "-f", shop(t, row.program), "test-compile", "surefire:help")
			case "jest", "vitest":
				row.command = append(installed(t, dir, row.program), map[string][]string{"vitest": {"run"}}[row.program]...)
				box.Read = []string{os.Getenv("ACTLOG_NODE_MODULES")}
			}
			called := only(t, tests.Command{Name: "unit", Dir: dir, Arguments: row.command, Env: env, Sandbox: box})

			r := ask(t, called, `{}`)
			if diff := cmp.Diff([]failed{row.want}, resultsOf(t, r).FailedTests); diff != "" || r.Summary != row.all {
				t.Errorf("r.Summary = %q (-want +got):\n%s\n%s", r.Summary, diff, r.Text)
			}
			if r := ask(t, called, row.some); r.Failed || r.Summary != row.passed {
				t.Errorf("%q: %s", r.Summary, r.Text)
			}
			if strings.Contains(row.program, "est") {
				left, err := filepath.Glob(filepath.Join(dir, ".coverage*"))
				if err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			}
		})
	}
}

// Tests run the code that is in the files, also if a file is changed twice in a second and keeps its size.
func TestPythonOfNow(t *testing.T) {
	t.Parallel()
	works(t, "python3", "-c", "import unittest")
	dir := t.TempDir()
	write(t, dir, "test_half.py", "import unittest\nfrom half import half\n\n\n"+
		"class T(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(2, half(4))\n")
	called := only(t, tests.Command{Name: "unit", Dir: dir, Arguments: []string{"python3", "-m", "unittest"}})

	changed := time.Now()
	for _, row := range []struct {
		divisor string
		failed  bool
	}{{"1", true}, {"2", false}} {
		write(t, dir, "half.py", "def half(n):\n    return n // "+row.divisor+"\n")
		if err := os.Chtimes(filepath.Join(dir, "half.py"), changed, changed); err != nil {
			t.Fatal(err)
		}
		if r := ask(t, called, `{}`); r.Failed != row.failed {
			t.Errorf("by %s: %s", row.divisor, r.Text)
		}
	}
}
