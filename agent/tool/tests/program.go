package tests

import (
	"path/filepath"
	"slices"
	"strings"
)

// Format is how a command reports its tests.
type Format string

// The formats.
const (
	Go    Format = "go"    // lines of JSON on the standard output, as go test -json writes them
	JUnit Format = "junit" // files of XML, as JUnit, pytest, Maven, Gradle and many others write them
	Jest  Format = "jest"  // a file of JSON, as Jest and Vitest write it
	Text  Format = "text"  // nothing but the output, in which counts of tests are looked for
)

// Formats are all formats.
func Formats() []Format { return []Format{Go, JUnit, Jest, Text} }

// program is what is known of a program that runs tests.
type program struct {
	name   string
	format Format
	report []string // arguments that let it write its report
	files  string   // pattern of the files below the folder that it writes anyway
	// selected and marked return the arguments for tests by their names and marks; nil: there is no known way.
	selected, marked func(value string) []string
	coverage         []string // arguments that measure it; nil: there is no known way
	path             func(within within, path string) ([]string, error)
}

const (
	reportMark = "{report}" // in arguments: the file of the report
	folderMark = "{folder}" // in arguments: the folder of the report
)

func joined(option string) func(string) []string {
	return func(value string) []string { return []string{option + value} }
}

func separate(option string) func(string) []string {
	return func(value string) []string { return []string{option, value} }
}

var (
	goTest = program{
		name: "go test", format: Go, report: []string{"-json"}, selected: joined("-run="), path: packages,
		coverage: []string{"-coverprofile=" + folderMark + "/" + goProfile},
	}
	pytest = program{
		name: "pytest", format: JUnit, report: []string{"-o", "junit_family=xunit1", "--junitxml=" + reportMark},
		selected: separate("-k"), marked: separate("-m"), path: nodes,
		coverage: []string{"--cov", "--cov-report=xml:" + folderMark + "/" + coberturaFile},
	}
	jest = program{
		name: "jest", format: Jest, report: []string{"--testLocationInResults", "--json", "--outputFile=" + reportMark},
		selected: joined("--testNamePattern="),
		coverage: []string{"--coverage", "--coverageReporters=json-summary", "--coverageDirectory=" + folderMark +
			"/coverage"},
	}
	vitest = program{
		name: "vitest", format: Jest,
		report:   []string{"--reporter=default", "--reporter=json", "--outputFile.json=" + reportMark},
		selected: joined("--testNamePattern="),
		coverage: []string{
			"--coverage.enabled", "--coverage.reportOnFailure", "--coverage.reporter=json-summary",
			"--coverage.reportsDirectory=" + folderMark + "/coverage",
		},
	}
	maven = program{
		name: "mvn", format: JUnit, files: "**/target/{surefire,failsafe}-reports/*.xml",
		selected: joined("-Dtest="), marked: joined("-Dgroups="), path: module,
	}
	gradle = program{name: "gradle", format: JUnit, files: "**/build/test-results/**/*.xml", selected: separate("--tests"),
		path: noPath}
)

// programs are the known ones by their names.
var programs = map[string]program{
	"pytest": pytest, "py.test": pytest, "jest": jest, "vitest": vitest,
	"mvn": maven, "mvnw": maven, "mvnd": maven, "gradle": gradle, "gradlew": gradle,
}

// scripts are programs that hand arguments to a command which a shell reads.
var scripts = []string{"npm", "yarn", "pnpm", "bun", "make"}

// maxNamed is how many arguments are looked at for the name of a program, such as in uv run --frozen python -m pytest.
const maxNamed = 6

func programOf(command []string) program {
	for i, each := range command[:min(len(command), maxNamed)] {
		name := filepath.Base(each)
		if known, ok := programs[name]; ok {
			return known
		}
		if name == "go" && i+1 < len(command) && command[i+1] == "test" {
			return goTest
		}
	}
	return program{name: filepath.Base(command[0]), format: Text}
}

// otherProgram is one of which only the format is known.
func otherProgram(format Format, name string) program {
	if format == Jest && slices.Contains(scripts, name) { // npm test, of which somebody says that it is Jest
		return jest
	}
	return program{name: name, format: format}
}

// reports reports whether an argument of a command already says where its report goes.
func (p program) reports(argument string) bool {
	name, _, _ := strings.Cut(argument, "=")
	return slices.ContainsFunc(p.report, func(each string) bool {
		own, _, _ := strings.Cut(each, "=")
		return strings.HasPrefix(own, "--") && own == name && strings.Contains(each, reportMark)
	})
}

// writes reports whether the program writes its report into the folder that it is given.
func (p program) writes() bool { return p.format == JUnit || p.format == Jest }
