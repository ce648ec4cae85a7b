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

// rule says what the code of a package may import besides the standard library. Tests are not
// checked.
type rule struct {
	ours    []string // packages of this module; "..." at the end: all below
	modules []string // of others
}

const (
	pgx  = "github.com/jackc/pgx/v5"
	echo = "github.com/labstack/echo/v4"

	mcpSDK = "github.com/modelcontextprotocol/go-sdk"
	wazero = "github.com/tetratelabs/wazero"
)

// rules is the table that architecture.md speaks of. A key that ends in "/..." holds for the
// packages below that have no line of their own.
var rules = map[string]rule{
	// The vocabulary, and what agents hold.
	"record":         {nil, []string{"github.com/google/uuid"}},
	"recorder":       {[]string{"record", "internal/record/field", "internal/record/wire"}, nil},
	"recorder/spool": {[]string{"record", "recorder", "internal/record/field", "internal/record/wire"}, []string{"github.com/tidwall/wal"}},
	// It opens a record of its own, and keeps that within its bounds.
	"recorder/direct": {[]string{"record", "recorder", "internal/record/store", "internal/record/upkeep"}, nil},

	// What a program that runs agents defines. Providers are known by their adapters alone.
	"agent/model":                    {nil, []string{"github.com/go-json-experiment/json", "golang.org/x/sync"}},
	"agent/model/openai":             {[]string{"agent/model", "agent/model/internal/modelhttp"}, nil},
	"agent/model/anthropic":          {[]string{"agent/model", "agent/model/internal/modelhttp"}, nil},
	"agent/model/internal/modelhttp": {[]string{"agent/model"}, []string{"github.com/tmaxmax/go-sse"}},
	"agent/redact":                   {nil, nil},

	// Pure functions of records.
	"internal/record/content":   {nil, nil},
	"internal/record/loosejson": {nil, nil},
	"internal/record/field":     {[]string{"record", "internal/record/content", "internal/record/loosejson"}, nil},
	"internal/record/tree":      {[]string{"record", "internal/record/loosejson"}, nil},
	"internal/runtime/decision": {[]string{"record"}, nil},
	"internal/runtime/template": {[]string{"record"}, nil},
	"internal/record/search":    {nil, []string{"golang.org/x/text"}},
	"internal/record/recent":    {nil, nil},
	"internal/record/wire":      {[]string{"record", "internal/record/content", "internal/record/field", "internal/record/nearest", "internal/record/tree"}, []string{"github.com/go-json-experiment/json", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}},
	"internal/trace/otlp":       {[]string{"record", "internal/record/field", "internal/record/loosejson"}, []string{"github.com/go-json-experiment/json", "github.com/klauspost/compress", "go.opentelemetry.io/collector/pdata"}},

	// The record in Postgres. fieldsql owns the decoder of rows.
	"db":                       {nil, []string{pgx}},
	"migrations":               {nil, nil},
	"internal/record/fieldsql": {[]string{"record", "internal/record/content", "internal/record/field"}, []string{pgx}},
	"internal/record/pg":       {[]string{"record"}, []string{pgx, "github.com/jackc/puddle/v2"}},
	"internal/record/feed":     {[]string{"record", "internal/record/pg", "db"}, []string{pgx}},
	"internal/record/delta":    {[]string{"internal/record/pg", "internal/record/recent"}, nil},
	"internal/record/store":    {[]string{"record", "internal/record/content", "internal/record/delta", "internal/record/field", "internal/record/fieldsql", "internal/record/pg", "internal/record/feed", "internal/record/recent", "internal/record/search", "internal/record/tree", "db", "migrations"}, []string{pgx, "github.com/pressly/goose/v3"}},
	"internal/record/upkeep":   {[]string{"record", "internal/record/pg", "internal/record/store", "db"}, []string{pgx}},
	"internal/record/report":   {[]string{"record", "internal/record/pg"}, []string{pgx}},
	"internal/record/embedpg":  {[]string{"agent/sandbox"}, []string{"github.com/fergusstrange/embedded-postgres", "golang.org/x/sys"}},

	// How the record is laid out, and said to people.
	"internal/view/outline":        {[]string{"record", "internal/record/tree"}, nil},
	"internal/door/web/compare":    {[]string{"record", "internal/view/outline"}, []string{"github.com/aymanbagabas/go-udiff"}},
	"internal/record/nearest":      {nil, nil},
	"internal/view/words":          {nil, nil},
	"internal/view/when":           {nil, nil},
	"cmd/actlog/internal/terminal": {nil, nil},
	"internal/view/chat":           {[]string{"internal/record/loosejson"}, []string{"github.com/go-json-experiment/json"}},

	// What is served. httpd knows nothing of the record but its errors and the body of a change.
	"internal/door/live":     {[]string{"record", "internal/record/delta", "internal/record/pg", "internal/record/feed", "internal/record/store"}, nil},
	"internal/door/httpd":    {[]string{"record", "internal/record/recent", "internal/view/when", "internal/record/wire"}, []string{"github.com/klauspost/compress", echo, "github.com/prometheus/client_golang", "golang.org/x/net", "google.golang.org/grpc"}},
	"internal/trace/receive": {[]string{"record", "internal/door/httpd", "internal/trace/otlp", "internal/record/recent", "internal/record/store", "internal/record/wire"}, []string{echo, "github.com/prometheus/client_golang", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	// The store returns trees, so the API names their types. The metrics of upkeep are served.
	"internal/door/api": {[]string{"record", "internal/record/content", "internal/record/field", "internal/door/httpd", "internal/door/live", "internal/view/outline", "internal/record/store", "internal/record/tree", "internal/record/upkeep", "internal/record/wire"}, []string{"github.com/cespare/xxhash/v2", "github.com/klauspost/compress", echo, "github.com/prometheus/client_golang", "github.com/segmentio/encoding"}},

	// The page. It reads what the API reads.
	"internal/door/web": {[]string{"record", "internal/door/api", "internal/runtime/catalog", "internal/view/chat", "internal/door/web/compare",
		"internal/runtime/decision", "internal/runtime/engine", "internal/record/field", "internal/runtime/graph", "internal/door/httpd", "internal/door/live",
		"internal/record/loosejson", "internal/view/outline", "internal/runtime/runs", "internal/record/store", "internal/record/tree", "internal/record/wire",
		"internal/view/words"}, []string{"github.com/a-h/templ", echo, "github.com/microcosm-cc/bluemonday",
		"github.com/yuin/goldmark"}},

	// The tools of assistants. They read what the API reads, and the reports.
	"internal/door/mcp": {[]string{"record", "internal/door/api", "internal/view/chat", "internal/record/field", "internal/door/httpd", "internal/view/outline", "internal/record/report", "internal/record/search", "internal/record/store", "internal/record/tree", "internal/view/words"}, []string{"github.com/google/jsonschema-go", echo, mcpSDK}},

	// What is done with runs from outside. Who waits for a run follows the feed.
	"internal/runtime/runs": {[]string{"record", "agent/plan", "agent/tool", "internal/runtime/decision", "internal/record/delta", "internal/record/feed", "internal/runtime/graph", "internal/record/store", "internal/record/tree"}, nil},

	// What can be run, for those who ask.
	"internal/runtime/catalog": {[]string{"agent/config", "agent/tool", "internal/runtime/engine", "internal/record/store"}, nil},

	// What is served of the runtime.
	"internal/door/runapi": {[]string{"record", "agent/model", "agent/plan", "agent/workflow", "internal/runtime/catalog",
		"internal/runtime/decision", "internal/record/delta", "internal/runtime/engine", "internal/record/feed", "internal/record/field", "internal/runtime/graph",
		"internal/door/httpd", "internal/runtime/runs", "internal/record/store", "internal/record/tree", "internal/record/wire"},
		[]string{"github.com/coder/websocket", echo, "github.com/klauspost/compress"}},

	// What agents are made of. Nothing of it is linked into an agent that only records.
	"agent/tool": {[]string{"record", "agent/model"},
		[]string{"github.com/go-json-experiment/json", "github.com/google/jsonschema-go"}},
	"agent/tool/code": {[]string{"record", "agent/tool", "agent/tool/code/internal/treesitter", "agent/tool/internal/folder"},
		[]string{"github.com/fzipp/gocyclo", "github.com/uudashr/gocognit"}},
	// It runs parsers as WebAssembly. Programs that do not use the toolset do not link it.
	"agent/tool/code/internal/treesitter": {nil, []string{wazero}},
	"agent/tool/files": {[]string{"record", "agent/tool", "agent/tool/internal/folder"},
		[]string{"github.com/aymanbagabas/go-udiff"}},
	"agent/tool/git":              {[]string{"record", "agent/sandbox", "agent/tool", "agent/tool/internal/folder", "agent/internal/group"}, nil},
	"agent/tool/search":           {[]string{"record", "agent/model", "agent/tool", "agent/tool/internal/folder"}, nil},
	"agent/tool/tests":            {[]string{"agent/sandbox", "agent/tool", "agent/tool/internal/command", "agent/tool/internal/folder"}, nil},
	"agent/tool/internal/command": {[]string{"record", "agent/sandbox", "agent/internal/group"}, nil},
	"agent/tool/db":               {[]string{"agent/tool"}, []string{pgx}},
	"agent/tool/docker":           {[]string{"agent/tool", "agent/tool/internal/command"}, nil},
	"agent/tool/http":             {[]string{"record", "agent/tool"}, []string{"code.dny.dev/ssrf"}},
	"agent/tool/shell":            {[]string{"agent/sandbox", "agent/tool", "agent/tool/internal/command"}, nil},
	"agent/sandbox":               {nil, []string{"github.com/landlock-lsm/go-landlock", "golang.org/x/sys"}},
	"agent/internal/group":        {nil, nil},
	"agent/tool/internal/folder":  {nil, nil},
	"agent/mcp":                   {[]string{"record", "agent/sandbox", "agent/tool", "agent/internal/group"}, []string{mcpSDK}},
	"agent/plan":                  {[]string{"record"}, nil},
	"agent/workflow":              {[]string{"record", "agent/model"}, nil},
	// It makes models and tools of the configuration file.
	"agent/config": {[]string{"agent/mcp", "agent/model", "agent/model/anthropic", "agent/model/openai", "agent/redact",
		"agent/sandbox", "agent/tool", "agent/tool/db", "agent/tool/docker", "agent/tool/files", "agent/tool/git",
		"agent/tool/http", "agent/tool/search", "agent/tool/shell", "agent/tool/tests", "internal/record/nearest"},
		[]string{"go.yaml.in/yaml/v3"}},

	// The runtime. Executors are plain Go over the handle of the engine.
	"internal/runtime/engine":   {[]string{"record", "agent/model", "agent/tool", "internal/record/pg", "internal/record/store", "internal/record/tree"}, []string{"github.com/go-json-experiment/json", "github.com/google/uuid", "github.com/prometheus/client_golang"}},
	"internal/runtime/executor": {[]string{"agent/workflow", "internal/runtime/engine", "internal/runtime/executor/dag", "internal/runtime/executor/orchestrator", "internal/runtime/executor/plan", "internal/runtime/executor/thinkact", "internal/runtime/executor/workflow"}, nil},
	"internal/runtime/parts":    {[]string{"record", "agent/config", "agent/mcp", "agent/model", "agent/redact", "agent/tool", "agent/workflow", "internal/runtime/engine", "internal/runtime/template"}, []string{"github.com/prometheus/client_golang"}},
	"internal/runtime/executor/dag": {[]string{"record", "agent/config", "agent/model", "agent/tool", "internal/runtime/engine",
		"internal/runtime/executor/thinkact", "internal/runtime/graph"}, nil},
	"internal/runtime/graph":                {[]string{"agent/tool"}, nil},
	"internal/runtime/executor/plan/follow": {[]string{"agent/config", "agent/tool", "internal/runtime/engine", "internal/runtime/executor/thinkact", "internal/runtime/template"}, nil},
	"internal/runtime/executor/orchestrator": {[]string{"record", "agent/config", "agent/model", "agent/tool", "internal/runtime/engine",
		"internal/runtime/executor/rounds"}, nil},
	"internal/runtime/executor/plan":   {[]string{"record", "agent/config", "agent/model", "agent/tool", "internal/runtime/engine", "internal/runtime/executor/plan/follow"}, nil},
	"internal/runtime/executor/rounds": {[]string{"record", "agent/model", "agent/tool", "internal/runtime/engine"}, nil},
	"internal/runtime/executor/thinkact": {[]string{"agent/config", "agent/model", "agent/tool", "internal/runtime/engine",
		"internal/runtime/executor/rounds"}, nil},
	"internal/runtime/executor/workflow/converse": {[]string{"agent/config", "agent/model", "agent/tool", "agent/workflow", "internal/runtime/engine"}, nil},
	"internal/runtime/executor/workflow":          {[]string{"record", "agent/config", "agent/model", "agent/tool", "agent/workflow", "internal/runtime/engine", "internal/runtime/executor/workflow/converse"}, nil},

	// What a Go program holds that runs agents: it puts the same rooms together as cmd/actlog.
	"agent": {[]string{"record", "agent/config", "agent/mcp", "agent/model", "agent/plan", "agent/redact", "agent/tool", "agent/workflow", "internal/runtime/decision", "internal/runtime/engine", "internal/runtime/executor", "internal/runtime/parts", "internal/runtime/runs", "internal/record/store", "internal/record/tree", "internal/record/upkeep"}, []string{"github.com/prometheus/client_golang"}},

	// Support for tests imports what it assembles.
	"internal/testkit/pgtest":        {[]string{"migrations", "internal/record/embedpg"}, []string{pgx, "github.com/pressly/goose/v3", "github.com/testcontainers/testcontainers-go", "github.com/testcontainers/testcontainers-go/modules/postgres", "go.uber.org/goleak"}},
	"internal/testkit/pgtest/withpg": {[]string{"internal/testkit/pgtest"}, nil},
	"internal/testkit/attack":        {nil, nil},
	"internal/testkit/storetest":     {[]string{"record", "internal/record/content", "internal/record/pg", "internal/testkit/pgtest", "internal/record/store", "internal/record/tree", "internal/record/upkeep"}, []string{pgx}},
	"internal/testkit/apitest": {
		[]string{"record", "internal/door/api", "internal/runtime/engine", "internal/door/httpd", "internal/door/live", "internal/trace/otlp", "internal/testkit/pgtest", "internal/trace/receive", "internal/door/runapi", "internal/record/store", "internal/testkit/storetest", "internal/record/upkeep", "internal/record/wire"},
		[]string{"github.com/google/go-cmp", pgx, "github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "github.com/santhosh-tekuri/jsonschema/v6", "go.opentelemetry.io/collector/pdata", "go.yaml.in/yaml/v3", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf", "google.golang.org/grpc"},
	},
	"internal/testkit/enginetest":  {[]string{"record", "agent/model", "agent/model/openai", "agent/tool", "internal/runtime/engine", "internal/testkit/pgtest", "internal/testkit/scriptmodel", "internal/record/store", "internal/testkit/storetest", "internal/record/tree"}, nil},
	"internal/testkit/scriptmodel": {nil, nil},
	"internal/testkit/imports":     {nil, nil},
	"clients":                      {nil, nil},

	// It measures Postgres itself beside us, compresses to describe its texts, exports, and drives a browser.
	"cmd/bench":    {[]string{"..."}, []string{"github.com/chromedp/cdproto", "github.com/chromedp/chromedp", pgx, "github.com/klauspost/compress", echo, "github.com/prometheus/client_golang", "github.com/tmaxmax/go-sse", "go.opentelemetry.io/collector/pdata"}},
	"cmd/chaos":    {[]string{"..."}, []string{pgx, mcpSDK}},
	"cmd/...":      {[]string{"..."}, []string{"github.com/alecthomas/kong", "github.com/klauspost/compress", echo, "github.com/rivo/uniseg", "github.com/schollz/progressbar/v3", "github.com/tmaxmax/go-sse", "golang.org/x/net", "golang.org/x/term", "google.golang.org/grpc"}},
	"examples/...": {[]string{"record", "recorder", "recorder/direct", "agent", "agent/model", "agent/model/openai", "agent/plan", "agent/tool/files", "agent/tool/git", "agent/workflow", "examples/..."}, nil},
}

// reserved are the modules that only these lines of the table may have.
var reserved = map[string][]string{
	pgx: {"internal/record/pg", "internal/record/fieldsql", "internal/record/store", "internal/record/feed", "internal/record/upkeep", "internal/record/report",
		"db", "agent/tool/db", "internal/testkit/pgtest", "internal/testkit/storetest", "internal/testkit/apitest", "cmd/bench", "cmd/chaos"},
	mcpSDK: {"agent/mcp", "internal/door/mcp", "cmd/chaos"},
	wazero: {"agent/tool/code/internal/treesitter"},
	echo:   {"internal/door/httpd", "internal/door/api", "internal/door/mcp", "internal/trace/receive", "internal/door/web", "internal/door/runapi", "cmd/bench", "cmd/..."},
}

// support are the packages that only tests, and each other, may import; and the benchmarks, which need a standby.
var support = []string{"internal/testkit/pgtest", "internal/testkit/pgtest/withpg", "internal/testkit/storetest", "internal/testkit/apitest", "internal/testkit/enginetest"}

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

// ruleFor returns the line of a package, or of a folder above it.
func ruleFor(name string) (rule, bool) {
	if r, ok := rules[name]; ok {
		return r, true
	}
	for dir := name; ; {
		i := strings.LastIndex(dir, "/")
		if i < 0 {
			return rule{}, false
		}
		dir = dir[:i]
		if r, ok := rules[dir+"/..."]; ok {
			return r, true
		}
	}
}

func (r rule) allows(name string) bool {
	return slices.ContainsFunc(r.ours, func(o string) bool {
		below, all := strings.CutSuffix(o, "...")
		return o == name || all && strings.HasPrefix(name, below)
	})
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
			found = append(found, "package "+name+" is not in the table: if one sentence says what it owns, add a line for it to rules "+
				"in internal/testkit/imports; else move its code to the package whose sentence covers it")
			continue
		}
		for _, path := range p.Imports {
			if imported, ok := strings.CutPrefix(path, module+"/"); ok {
				if !r.allows(imported) || slices.Contains(support, imported) && !slices.Contains(support, name) && name != "cmd/bench" {
					found = append(found, name+" may not import "+imported)
				}
				continue
			}
			of := all[path]
			if of == nil || of.Standard { // "C" and "unsafe" are not listed
				continue
			}
			if of.Module == nil || !slices.Contains(r.modules, of.Module.Path) {
				found = append(found, name+" may not import "+path)
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestImports checks the table. A37: executors depend on the handle of the engine, and on no store, server or provider.
func TestImports(t *testing.T) {
	t.Parallel()
	all := list(t)
	for _, b := range breaches(all) {
		t.Error(b)
	}
	// Heavy packages must not be linked into agents, not even indirectly.
	for _, p := range reached(all, module+"/recorder") {
		for _, heavy := range []string{"github.com/jackc/", "github.com/labstack/", "github.com/google/jsonschema-go", mcpSDK, module + "/internal/record/store", module + "/agent"} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("an agent that holds a recorder links %s", p)
			}
		}
	}
	// Toolsets with heavy dependencies register themselves, and are linked only by programs that import them.
	for _, p := range reached(all, module+"/agent") {
		if strings.HasPrefix(p, wazero) || p == module+"/agent/tool/code" {
			t.Errorf("a program that holds an agent links %s", p)
		}
	}
	if !slices.Contains(reached(all, module+"/cmd/actlog"), wazero) {
		t.Error("the server does not link the toolset code")
	}
	if all[module+"/record"] == nil || all[module+"/internal/record/store"] == nil {
		t.Error("the packages of this module were not checked")
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

// TestReserved: no line of the table has a module that is reserved for others.
func TestReserved(t *testing.T) {
	t.Parallel()
	for name, r := range rules {
		for _, m := range r.modules {
			if only, ok := reserved[m]; ok && !slices.Contains(only, name) {
				t.Errorf("the line of %s has %s, which is only for %s", name, m, strings.Join(only, ", "))
			}
		}
	}
}

// TestBreachesAreSeen: imports that are against the rules are found.
func TestBreachesAreSeen(t *testing.T) {
	t.Parallel()
	uuid := &pkg{ImportPath: "github.com/google/uuid", Module: &struct{ Path string }{"github.com/google/uuid"}}
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
		{"internal/record/tree", []string{module + "/internal/record/store"}, "may not import"},
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
		{"internal/util", nil, "not in the table"},
		{"internal/record/tree/deeper", nil, "not in the table"},
	} {
		p := &pkg{ImportPath: module + "/" + tt.name, Imports: tt.imports}
		all := map[string]*pkg{p.ImportPath: p, uuid.ImportPath: uuid, pool.ImportPath: pool, "fmt": {ImportPath: "fmt", Standard: true}}
		if got := strings.Join(breaches(all), "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s importing %q: %q, want %q", tt.name, tt.imports, got, tt.want)
		}
	}
}
