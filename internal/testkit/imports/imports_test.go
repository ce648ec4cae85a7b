package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/actlog/actlog"

// rule says what the code of some packages may import besides the standard library. Tests are not
// checked.
type rule struct {
	ours    []string // packages of this module; "/..." at the end: it, and all below
	modules []string // of others
}

const (
	pgx  = "github.com/jackc/pgx/v5"
	echo = "github.com/labstack/echo/v4"

	mcpSDK = "github.com/modelcontextprotocol/go-sdk"
	wazero = "github.com/tetratelabs/wazero"
)

// rules is the table that architecture.md speaks of: a line for each room. A key that ends in "/..." holds for the
// package and for those below it; the longest key that covers a package holds.
var rules = map[string]rule{
	// The vocabulary, and what agents hold. recorder/direct opens a record of its own, and keeps that within its bounds.
	"record": {nil, []string{"github.com/google/uuid"}},
	"recorder/...": {
		[]string{"record", "recorder", "internal/record/field", "internal/record/wire"}, []string{"github.com/tidwall/wal"},
	},
	"recorder/direct": {[]string{"record", "recorder", "internal/record/store", "internal/record/upkeep"}, nil},

	// What a Go program holds that runs agents: it puts the same rooms together as cmd/actlog.
	"agent": {
		[]string{"record", "agent/...", "internal/record/...", "internal/runtime/..."},
		[]string{"github.com/prometheus/client_golang"},
	},
	"agent/config": {[]string{"internal/runtime/config"}, nil},
	// What the tests of such a program hold.
	"agent/agenttest": {
		[]string{"record", "agent/...", "internal/record/...", "internal/runtime/...", "internal/testkit/testdb"}, nil,
	},
	// What agents are made of. Nothing of it is linked into an agent that only records.
	"agent/...": {[]string{"record", "agent/..."}, []string{
		"code.dny.dev/ssrf", "github.com/aymanbagabas/go-udiff", "github.com/fzipp/gocyclo",
		"github.com/go-json-experiment/json",
		"github.com/google/jsonschema-go", "github.com/landlock-lsm/go-landlock", "github.com/tmaxmax/go-sse",
		"github.com/uudashr/gocognit",
		"golang.org/x/sync", "golang.org/x/sys", mcpSDK, pgx, wazero,
	}},

	// The rooms.
	"db":         {nil, []string{pgx}},
	"migrations": {nil, nil},
	"internal/record/...": {[]string{
		"record", "agent/sandbox", "db", "migrations", "internal/record/...", "internal/trace/spans",
	}, []string{
		"github.com/fergusstrange/embedded-postgres", "github.com/go-json-experiment/json", "github.com/jackc/puddle/v2",
		"github.com/klauspost/compress",
		"github.com/pierrec/lz4/v4", "github.com/pressly/goose/v3", "golang.org/x/sys", "golang.org/x/text", pgx,
	}},
	// Receivers are served by the server of the doors.
	"internal/trace/spans": {[]string{"internal/record/loosejson"}, []string{"github.com/go-json-experiment/json"}},
	"internal/trace/...": {[]string{"record", "internal/record/...", "internal/trace/...", "internal/door/httpd"},
		[]string{
			"github.com/go-json-experiment/json", "github.com/klauspost/compress", "github.com/prometheus/client_golang",
			"go.opentelemetry.io/collector/pdata", "go.opentelemetry.io/proto/otlp",
			"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf", echo,
		}},
	"internal/runtime/...": {[]string{"record", "agent/...", "internal/record/...", "internal/runtime/..."}, []string{
		"github.com/go-json-experiment/json", "github.com/google/uuid", "github.com/prometheus/client_golang",
	}},
	// What others recorded is read in whatever form they recorded it.
	"internal/runtime/modelcall": {
		[]string{"record", "agent/model", "agent/tool", "internal/record/optional", "internal/view/chat"}, nil,
	},
	"internal/runtime/runstore": {[]string{"record", "db", "internal/record/..."}, []string{pgx}},
	// The configuration file is linked only by those that open one; what it defines, by all that run agents.
	"internal/runtime/config": {
		[]string{"record", "agent/...", "internal/record/nearest", "internal/runtime/define", "internal/runtime/schedule"},
		[]string{"go.yaml.in/yaml/v3"},
	},
	"internal/runtime/schedule": {[]string{"record", "internal/runtime/define"}, []string{"github.com/netresearch/go-cron"}},
	"internal/runtime/define":   {[]string{"agent/model", "agent/redact", "agent/tool", "internal/record/nearest"}, nil},
	// Executors are given the handle of the engine. They know no store, and no server.
	"internal/runtime/executor/...": {[]string{
		"record", "agent/...", "internal/runtime/define", "internal/runtime/engine", "internal/runtime/executor/...",
		"internal/runtime/graph",
	}, nil},
	"internal/view/...": {
		[]string{
			"record", "internal/record/loosejson", "internal/record/optional", "internal/record/tree", "internal/view/...",
		}, []string{"github.com/go-json-experiment/json"},
	},
	// A door knows no other one. What they share is below them: the server, how runs are looked up, and the fan-out of
	// what changes.
	"internal/door/...": {[]string{
		"record", "agent/...", "internal/record/...", "internal/runtime/...", "internal/view/...",
		"internal/door/httpd", "internal/door/lookup", "internal/door/live", "internal/door/web/compare",
	}, []string{
		"github.com/a-h/templ", "github.com/aymanbagabas/go-udiff", "github.com/cespare/xxhash/v2",
		"github.com/coder/websocket", "github.com/google/jsonschema-go",
		"github.com/klauspost/compress", "github.com/microcosm-cc/bluemonday", "github.com/prometheus/client_golang",
		"github.com/segmentio/encoding",
		"github.com/yuin/goldmark", echo, mcpSDK,
	}},
	// It knows nothing of the record but its errors and the body of a change.
	"internal/door/httpd": {[]string{"record", "internal/record/recent", "internal/record/wire", "internal/view/when"},
		[]string{
			"github.com/klauspost/compress", "github.com/prometheus/client_golang", "golang.org/x/net",
			"google.golang.org/grpc", echo,
		}},
	// Support for tests imports what it assembles.
	"internal/testkit/...": {[]string{"..."}, []string{
		"github.com/google/go-cmp", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4",
		"github.com/pressly/goose/v3",
		"github.com/santhosh-tekuri/jsonschema/v6", "github.com/testcontainers/testcontainers-go",
		"github.com/testcontainers/testcontainers-go/modules/postgres",
		"go.opentelemetry.io/collector/pdata", "go.uber.org/goleak", "go.yaml.in/yaml/v3",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc",
		"google.golang.org/protobuf", pgx,
	}},

	// The commands. Benchmarks measure Postgres itself beside us, compress to describe their texts, export, and drive a
	// browser.
	"cmd/...": {[]string{"..."}, []string{
		"github.com/alecthomas/kong", "github.com/klauspost/compress", "github.com/rivo/uniseg",
		"github.com/schollz/progressbar/v3", "github.com/tmaxmax/go-sse",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/term", "google.golang.org/grpc", echo,
	}},
	"cmd/bench": {[]string{"..."}, []string{
		"github.com/chromedp/cdproto", "github.com/chromedp/chromedp", "github.com/klauspost/compress",
		"github.com/prometheus/client_golang",
		"github.com/tmaxmax/go-sse", "go.opentelemetry.io/collector/pdata", echo, pgx,
	}},
	"cmd/chaos":    {[]string{"..."}, []string{pgx, mcpSDK}},
	"examples/...": {[]string{"record", "recorder/...", "agent/...", "examples/..."}, nil},
	"clients/...":  {[]string{"clients/packages"}, nil},
}

// reserved are the modules that only these packages may import.
var reserved = map[string][]string{
	pgx: {
		"internal/record/...", "internal/runtime/runstore", "db", "agent/tool/db", "internal/testkit/...", "cmd/bench",
		"cmd/chaos",
	},
	mcpSDK: {"agent/mcp", "internal/door/mcp", "cmd/chaos"},
	wazero: {"agent/tool/code/internal/treesitter"},
	echo:   {"internal/door/...", "internal/trace/receive", "cmd/..."},
}

// support is what only tests, and its own packages, may import; and the benchmarks, which need a standby.
const support = "internal/testkit/..."

// supported are the packages of it that programs may import.
var supported = []string{"internal/testkit/scriptmodel"}

// agentTests is what only the tests of those who run agents import. It is support for tests itself.
const agentTests = "agent/agenttest"

// pkg is a package as `go list` prints it.
type pkg struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
}

// list returns the packages of this module, and all packages that they are built from, by path.
func list(t *testing.T) map[string]*pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Module,Imports", "./...")
	cmd.Dir = filepath.Join("..", "..", "..")
	var failed strings.Builder
	cmd.Stderr = &failed

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	all := map[string]*pkg{}
	for d := json.NewDecoder(out); ; {
		p := new(pkg)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list: %v\n%s", err, failed.String())
	}
	return all
}

// covers reports whether a key of the table is that of a package.
func covers(key, name string) bool {
	room, all := strings.CutSuffix(key, "/...")
	return key == "..." || key == name || all && (name == room || strings.HasPrefix(name, room+"/"))
}

func covered(keys []string, name string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return covers(key, name) })
}

// ruleFor returns the line of a package.
func ruleFor(name string) (r rule, ok bool) {
	if r, ok = rules[name]; ok {
		return r, true
	}

	longest := -1
	for key, each := range rules {
		if covers(key, name) && len(key) > longest {
			r, ok = each, true
			longest = len(key)
		}
	}
	return r, ok
}

// breaches returns the imports that are against the rules, and the packages without a rule.
func breaches(all map[string]*pkg) (found []string) {
	for _, p := range all {
		name, ok := strings.CutPrefix(p.ImportPath, module+"/")
		if !ok {
			continue
		}
		r, ok := ruleFor(name)
		if !ok {
			found = append(found, "package "+name+" is in no room: put it into the folder of the room that it belongs to, see "+
				"rules in internal/testkit/imports")
			continue
		}

		for _, path := range p.Imports {
			if !mayImport(name, path, r, all[path]) {
				found = append(found, name+" may not import "+strings.TrimPrefix(path, module+"/"))
			}
		}
	}
	slices.Sort(found)
	return found
}

// mayImport reports whether a package with a rule may import another one.
func mayImport(name, path string, r rule, imported *pkg) bool {
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		forTests := covers(support, ours) && !slices.Contains(supported, ours) || ours == agentTests
		return covered(r.ours, ours) && (!forTests || covers(support, name) || name == "cmd/bench" || name == agentTests)
	}

	if imported == nil || imported.Standard { // "C" and "unsafe" are not listed
		return true
	}
	if imported.Module == nil || !slices.Contains(r.modules, imported.Module.Path) {
		return false
	}
	only, isReserved := reserved[imported.Module.Path]
	return !isReserved || covered(only, name)
}

// TestImports checks the table. A37: executors depend on the handle of the engine, and on no store, server or provider.
func TestImports(t *testing.T) {
	t.Parallel()
	all := list(t)
	for _, b := range breaches(all) {
		t.Errorf("b = %v", b)
	}

	// Heavy packages must not be linked into agents, not even indirectly.
	for _, p := range reached(all, module+"/recorder") {
		for _, heavy := range []string{
			"github.com/jackc/", "github.com/labstack/", "github.com/google/jsonschema-go", mcpSDK,
			module + "/internal/record/store", module + "/agent",
		} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("an agent that holds a recorder links %s", p)
			}
		}
	}

	if !slices.Contains(reached(all, module+"/cmd/actlog"), wazero) {
		t.Error("the server does not link the toolset code")
	}
	if all[module+"/record"] == nil || all[module+"/internal/record/store"] == nil {
		t.Error("the packages of this module were not checked")
	}
}

// linked are the modules that every program which runs agents is built from, for Postgres, its schema, the schemas of
// tools, and metrics. What else there is, such as providers of models, toolsets, MCP and the configuration file, is
// linked only by programs that name it.
var linked = []string{
	"github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/go-json-experiment/json",
	"github.com/google/jsonschema-go",
	"github.com/google/uuid", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", pgx,
	"github.com/jackc/puddle/v2",
	"github.com/mfridman/interpolate", "github.com/munnerz/goautoneg", "github.com/netresearch/go-cron",
	"github.com/pressly/goose/v3",
	"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common",
	"github.com/prometheus/procfs", "github.com/sethvargo/go-retry", "go.uber.org/multierr", "golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/text", "google.golang.org/protobuf",
}

// TestLinked: a program that imports agent links what all need, and nothing of what it does not name.
func TestLinked(t *testing.T) {
	t.Parallel()
	all := list(t)
	allowed := []string{
		"record", "agent", "agent/limit", "agent/model", "agent/plan", "agent/redact", "agent/tool",
		"agent/workflow", "db", "migrations", "internal/record/...", "internal/runtime/...", "internal/trace/spans",
		"internal/view/chat",
	}

	paths := reached(all, module+"/agent")
	if !slices.Contains(paths, module+"/internal/runtime/engine") {
		t.Errorf("a program that holds an agent links %v", paths)
	}
	for _, path := range paths {
		p := all[path]
		if p == nil || p.Standard {
			continue
		}

		ours, isOurs := strings.CutPrefix(path, module+"/")
		switch {
		case !isOurs && (p.Module == nil || !slices.Contains(linked, p.Module.Path)):
			t.Errorf("a program that holds an agent links %s", path)
		case isOurs && (!covered(allowed, ours) || covers("internal/runtime/config", ours)):
			t.Errorf("a program that holds an agent links %s", path)
		case isOurs && slices.Contains(p.Imports, "text/template"):
			t.Errorf("%s imports text/template: then the linker keeps all methods of all types", ours)
		}
	}
}

// reached returns the paths of all packages that a package is built from, its own first.
func reached(all map[string]*pkg, from string) []string {
	seen := map[string]bool{from: true}
	order := []string{from}
	for i := 0; i < len(order); i++ {
		p := all[order[i]]
		if p == nil {
			continue
		}

		for _, path := range p.Imports {
			if !seen[path] {
				seen[path] = true
				order = append(order, path)
			}
		}
	}
	return order
}

// TestBreachesAreSeen: imports that are against the rules are found.
func TestBreachesAreSeen(t *testing.T) {
	t.Parallel()
	uuid := &pkg{ImportPath: "github.com/google/uuid", Module: &struct{ Path string }{"github.com/google/uuid"}}
	echoed := &pkg{ImportPath: echo, Module: &struct{ Path string }{echo}}
	pool := &pkg{ImportPath: pgx + "/pgxpool", Module: &struct{ Path string }{pgx}}

	for _, tt := range []struct {
		name    string
		imports []string
		want    string
	}{
		{"record", []string{"fmt", uuid.ImportPath}, ""},
		{"record", []string{pool.ImportPath}, "may not import"},
		{"record", []string{module + "/recorder"}, "may not import"},
		{"internal/record/store", []string{pool.ImportPath, module + "/db"}, ""},
		{"internal/door/api", []string{pool.ImportPath}, "may not import"},
		{"cmd/anything", []string{module + "/internal/record/store", module + "/record"}, ""},
		{"cmd/anything", []string{pool.ImportPath}, "may not import"},
		{"examples/a/b", []string{module + "/examples/a", module + "/recorder/direct"}, ""},
		{"examples/a", []string{module + "/internal/record/store"}, "may not import"},
		{"cmd/anything", []string{module + "/internal/testkit/storetest"}, "may not import"},
		{"internal/testkit/apitest", []string{module + "/internal/record/store"}, ""},
		{"internal/record/fieldsql", []string{pool.ImportPath}, ""},
		{"internal/door/live", []string{pool.ImportPath}, "may not import"},
		{"internal/door/httpd", []string{module + "/internal/record/store"}, "may not import"},
		{"internal/door/web", []string{echoed.ImportPath, module + "/internal/runtime/engine"}, ""},
		{"internal/door/web", []string{module + "/internal/door/lookup"}, ""},
		{"internal/door/web", []string{module + "/internal/door/api"}, "may not import"},
		{"internal/door/lookup", []string{module + "/internal/door/runapi"}, "may not import"},
		{"internal/runtime/engine", []string{module + "/internal/door/httpd"}, "may not import"},
		{"internal/runtime/runstore", []string{pool.ImportPath, module + "/db"}, ""},
		{"internal/runtime/engine", []string{pool.ImportPath}, "may not import"},
		{"internal/record/store", []string{module + "/internal/runtime/runstore"}, "may not import"},
		{"internal/runtime/executor/plan", []string{module + "/internal/record/store"}, "may not import"},
		{"internal/view/outline", []string{module + "/internal/record/store"}, "may not import"},
		{"agent/model", []string{pool.ImportPath}, "may not import"},
		{"agent/tool/db", []string{pool.ImportPath}, ""},
		{"agent/agenttest", []string{module + "/internal/testkit/testdb"}, ""},
		{"agent", []string{module + "/agent/agenttest"}, "may not import"},
		{"examples/a", []string{module + "/agent/agenttest"}, "may not import"},
		{"internal/util", nil, "is in no room"},
	} {
		p := &pkg{ImportPath: module + "/" + tt.name, Imports: tt.imports}
		all := map[string]*pkg{
			p.ImportPath: p, uuid.ImportPath: uuid, pool.ImportPath: pool, echo: echoed,
			"fmt": {ImportPath: "fmt", Standard: true},
		}
		if got := strings.Join(breaches(all), "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s importing %q: %q, want %q", tt.name, tt.imports, got, tt.want)
		}
	}
}
