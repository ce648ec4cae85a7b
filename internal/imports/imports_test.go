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
	"recorder":       {[]string{"record", "internal/field", "internal/wire"}, nil},
	"recorder/spool": {[]string{"record", "recorder", "internal/field", "internal/wire"}, []string{"github.com/tidwall/wal"}},
	// It opens a record of its own, and keeps that within its bounds.
	"recorder/direct": {[]string{"record", "recorder", "internal/store", "internal/upkeep"}, nil},

	// What a program that runs agents defines. Providers are known by their adapters alone.
	"agent/model":           {nil, []string{"github.com/go-json-experiment/json", "golang.org/x/sync"}},
	"agent/model/openai":    {[]string{"agent/model", "internal/modelhttp"}, nil},
	"agent/model/anthropic": {[]string{"agent/model", "internal/modelhttp"}, nil},
	"internal/modelhttp":    {[]string{"agent/model"}, []string{"github.com/tmaxmax/go-sse"}},
	"agent/redact":          {nil, nil},

	// Pure functions of records.
	"internal/content":   {nil, nil},
	"internal/loosejson": {nil, nil},
	"internal/field":     {[]string{"record", "internal/content", "internal/loosejson"}, nil},
	"internal/tree":      {[]string{"record", "internal/loosejson"}, nil},
	"internal/decision":  {[]string{"record"}, nil},
	"internal/template":  {[]string{"record"}, nil},
	"internal/search":    {nil, []string{"golang.org/x/text"}},
	"internal/recent":    {nil, nil},
	"internal/wire":      {[]string{"record", "internal/content", "internal/field", "internal/nearest", "internal/tree"}, []string{"github.com/go-json-experiment/json", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}},
	"internal/otlp":      {[]string{"record", "internal/field", "internal/loosejson"}, []string{"github.com/go-json-experiment/json", "github.com/klauspost/compress", "go.opentelemetry.io/collector/pdata"}},

	// The record in Postgres. fieldsql owns the decoder of rows.
	"db":                {nil, []string{pgx}},
	"migrations":        {nil, nil},
	"internal/fieldsql": {[]string{"record", "internal/content", "internal/field"}, []string{pgx}},
	"internal/pg":       {[]string{"record"}, []string{pgx, "github.com/jackc/puddle/v2"}},
	"internal/feed":     {[]string{"record", "internal/pg", "db"}, []string{pgx}},
	"internal/delta":    {[]string{"internal/pg", "internal/recent"}, nil},
	"internal/store":    {[]string{"record", "internal/content", "internal/delta", "internal/field", "internal/fieldsql", "internal/pg", "internal/feed", "internal/recent", "internal/search", "internal/tree", "db", "migrations"}, []string{pgx, "github.com/pressly/goose/v3"}},
	"internal/upkeep":   {[]string{"record", "internal/pg", "internal/store", "db"}, []string{pgx}},
	"internal/report":   {[]string{"record", "internal/pg"}, []string{pgx}},
	"internal/embedpg":  {[]string{"agent/sandbox"}, []string{"github.com/fergusstrange/embedded-postgres", "golang.org/x/sys"}},

	// How the record is laid out, and said to people.
	"internal/outline":  {[]string{"record", "internal/tree"}, nil},
	"internal/compare":  {[]string{"record", "internal/outline"}, []string{"github.com/aymanbagabas/go-udiff"}},
	"internal/nearest":  {nil, nil},
	"internal/words":    {nil, nil},
	"internal/when":     {nil, nil},
	"internal/terminal": {nil, nil},
	"internal/chat":     {[]string{"internal/loosejson"}, []string{"github.com/go-json-experiment/json"}},

	// What is served. httpd knows nothing of the record but its errors and the body of a change.
	"internal/live":    {[]string{"record", "internal/delta", "internal/pg", "internal/feed", "internal/store"}, nil},
	"internal/httpd":   {[]string{"record", "internal/recent", "internal/when", "internal/wire"}, []string{"github.com/klauspost/compress", echo, "github.com/prometheus/client_golang", "golang.org/x/net", "google.golang.org/grpc"}},
	"internal/receive": {[]string{"record", "internal/httpd", "internal/otlp", "internal/recent", "internal/store", "internal/wire"}, []string{echo, "github.com/prometheus/client_golang", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	// The store returns trees, so the API names their types. The metrics of upkeep are served.
	"internal/api": {[]string{"record", "internal/content", "internal/field", "internal/httpd", "internal/live", "internal/outline", "internal/store", "internal/tree", "internal/upkeep", "internal/wire"}, []string{"github.com/cespare/xxhash/v2", "github.com/klauspost/compress", echo, "github.com/prometheus/client_golang", "github.com/segmentio/encoding"}},

	// The page. It reads what the API reads.
	"internal/web": {[]string{"record", "internal/api", "internal/catalog", "internal/chat", "internal/compare",
		"internal/decision", "internal/engine", "internal/field", "internal/graph", "internal/httpd", "internal/live",
		"internal/loosejson", "internal/outline", "internal/runs", "internal/store", "internal/tree", "internal/wire",
		"internal/words"}, []string{"github.com/a-h/templ", echo, "github.com/microcosm-cc/bluemonday",
		"github.com/yuin/goldmark"}},

	// The tools of assistants. They read what the API reads, and the reports.
	"internal/mcp": {[]string{"record", "internal/api", "internal/chat", "internal/field", "internal/httpd", "internal/outline", "internal/report", "internal/search", "internal/store", "internal/tree", "internal/words"}, []string{"github.com/google/jsonschema-go", echo, mcpSDK}},

	// What is done with runs from outside. Who waits for a run follows the feed.
	"internal/runs": {[]string{"record", "agent/plan", "agent/tool", "internal/decision", "internal/delta", "internal/feed", "internal/graph", "internal/store", "internal/tree"}, nil},

	// What can be run, for those who ask.
	"internal/catalog": {[]string{"agent/config", "agent/tool", "internal/engine", "internal/store"}, nil},

	// What is served of the runtime.
	"internal/runapi": {[]string{"record", "agent/model", "agent/plan", "agent/workflow", "internal/catalog",
		"internal/decision", "internal/delta", "internal/engine", "internal/feed", "internal/field", "internal/graph",
		"internal/httpd", "internal/runs", "internal/store", "internal/tree", "internal/wire"},
		[]string{"github.com/coder/websocket", echo, "github.com/klauspost/compress"}},

	// What agents are made of. Nothing of it is linked into an agent that only records.
	"agent/tool": {[]string{"record", "agent/model"},
		[]string{"github.com/go-json-experiment/json", "github.com/google/jsonschema-go"}},
	"agent/tool/code": {[]string{"record", "agent/tool", "agent/tool/code/internal/treesitter", "internal/folder"},
		[]string{"github.com/fzipp/gocyclo", "github.com/uudashr/gocognit"}},
	// It runs parsers as WebAssembly. Programs that do not use the toolset do not link it.
	"agent/tool/code/internal/treesitter": {nil, []string{wazero}},
	"agent/tool/files": {[]string{"record", "agent/tool", "internal/folder"},
		[]string{"github.com/aymanbagabas/go-udiff"}},
	"agent/tool/git":              {[]string{"record", "agent/sandbox", "agent/tool", "internal/folder", "internal/group"}, nil},
	"agent/tool/search":           {[]string{"record", "agent/model", "agent/tool", "internal/folder"}, nil},
	"agent/tool/tests":            {[]string{"agent/sandbox", "agent/tool", "agent/tool/internal/command", "internal/folder"}, nil},
	"agent/tool/internal/command": {[]string{"record", "agent/sandbox", "internal/group"}, nil},
	"agent/tool/db":               {[]string{"agent/tool"}, []string{pgx}},
	"agent/tool/docker":           {[]string{"agent/tool", "agent/tool/internal/command"}, nil},
	"agent/tool/http":             {[]string{"record", "agent/tool"}, []string{"code.dny.dev/ssrf"}},
	"agent/tool/shell":            {[]string{"agent/sandbox", "agent/tool", "agent/tool/internal/command"}, nil},
	"agent/sandbox":               {nil, []string{"github.com/landlock-lsm/go-landlock", "golang.org/x/sys"}},
	"internal/group":              {nil, nil},
	"internal/folder":             {nil, nil},
	"agent/mcp":                   {[]string{"record", "agent/sandbox", "agent/tool", "internal/group"}, []string{mcpSDK}},
	"agent/plan":                  {[]string{"record"}, nil},
	"agent/workflow":              {[]string{"record", "agent/model"}, nil},
	// It makes models and tools of the configuration file.
	"agent/config": {[]string{"agent/mcp", "agent/model", "agent/model/anthropic", "agent/model/openai", "agent/redact",
		"agent/sandbox", "agent/tool", "agent/tool/db", "agent/tool/docker", "agent/tool/files", "agent/tool/git",
		"agent/tool/http", "agent/tool/search", "agent/tool/shell", "agent/tool/tests", "internal/nearest"},
		[]string{"go.yaml.in/yaml/v3"}},

	// The runtime. Executors are plain Go over the handle of the engine.
	"internal/engine":   {[]string{"record", "agent/model", "agent/tool", "internal/pg", "internal/store", "internal/tree"}, []string{"github.com/go-json-experiment/json", "github.com/google/uuid", "github.com/prometheus/client_golang"}},
	"internal/executor": {[]string{"agent/workflow", "internal/engine", "internal/executor/dag", "internal/executor/orchestrator", "internal/executor/plan", "internal/executor/thinkact", "internal/executor/workflow"}, nil},
	"internal/parts":    {[]string{"record", "agent/config", "agent/mcp", "agent/model", "agent/redact", "agent/tool", "agent/workflow", "internal/engine", "internal/template"}, []string{"github.com/prometheus/client_golang"}},
	"internal/executor/dag": {[]string{"record", "agent/config", "agent/model", "agent/tool", "internal/engine",
		"internal/executor/thinkact", "internal/graph"}, nil},
	"internal/graph":           {[]string{"agent/tool"}, nil},
	"internal/executor/follow": {[]string{"agent/config", "agent/tool", "internal/engine", "internal/executor/thinkact", "internal/template"}, nil},
	"internal/executor/orchestrator": {[]string{"record", "agent/config", "agent/model", "agent/tool", "internal/engine",
		"internal/executor/rounds"}, nil},
	"internal/executor/plan":   {[]string{"record", "agent/config", "agent/model", "agent/tool", "internal/engine", "internal/executor/follow"}, nil},
	"internal/executor/rounds": {[]string{"record", "agent/model", "agent/tool", "internal/engine"}, nil},
	"internal/executor/thinkact": {[]string{"agent/config", "agent/model", "agent/tool", "internal/engine",
		"internal/executor/rounds"}, nil},
	"internal/executor/converse": {[]string{"agent/config", "agent/model", "agent/tool", "agent/workflow", "internal/engine"}, nil},
	"internal/executor/workflow": {[]string{"record", "agent/config", "agent/model", "agent/tool", "agent/workflow", "internal/engine", "internal/executor/converse"}, nil},

	// What a Go program holds that runs agents: it puts the same rooms together as cmd/actlog.
	"agent": {[]string{"record", "agent/config", "agent/mcp", "agent/model", "agent/plan", "agent/redact", "agent/tool", "agent/workflow", "internal/decision", "internal/engine", "internal/executor", "internal/parts", "internal/runs", "internal/store", "internal/tree", "internal/upkeep"}, []string{"github.com/prometheus/client_golang"}},

	// Support for tests imports what it assembles.
	"internal/pgtest":        {[]string{"migrations", "internal/embedpg"}, []string{pgx, "github.com/pressly/goose/v3", "github.com/testcontainers/testcontainers-go", "github.com/testcontainers/testcontainers-go/modules/postgres", "go.uber.org/goleak"}},
	"internal/pgtest/withpg": {[]string{"internal/pgtest"}, nil},
	"internal/attack":        {nil, nil},
	"internal/storetest":     {[]string{"record", "internal/content", "internal/pg", "internal/pgtest", "internal/store", "internal/tree", "internal/upkeep"}, []string{pgx}},
	"internal/apitest": {
		[]string{"record", "internal/api", "internal/engine", "internal/httpd", "internal/live", "internal/otlp", "internal/pgtest", "internal/receive", "internal/runapi", "internal/store", "internal/storetest", "internal/upkeep", "internal/wire"},
		[]string{"github.com/google/go-cmp", pgx, "github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "github.com/santhosh-tekuri/jsonschema/v6", "go.opentelemetry.io/collector/pdata", "go.yaml.in/yaml/v3", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf", "google.golang.org/grpc"},
	},
	"internal/enginetest":  {[]string{"record", "agent/model", "agent/model/openai", "agent/tool", "internal/engine", "internal/pgtest", "internal/scriptmodel", "internal/store", "internal/storetest", "internal/tree"}, nil},
	"internal/scriptmodel": {nil, nil},
	"internal/imports":     {nil, nil},
	"clients":              {nil, nil},

	// It measures Postgres itself beside us, compresses to describe its texts, exports, and drives a browser.
	"cmd/bench":    {[]string{"..."}, []string{"github.com/chromedp/cdproto", "github.com/chromedp/chromedp", pgx, "github.com/klauspost/compress", echo, "github.com/prometheus/client_golang", "github.com/tmaxmax/go-sse", "go.opentelemetry.io/collector/pdata"}},
	"cmd/chaos":    {[]string{"..."}, []string{pgx, mcpSDK}},
	"cmd/...":      {[]string{"..."}, []string{"github.com/alecthomas/kong", "github.com/klauspost/compress", echo, "github.com/rivo/uniseg", "github.com/schollz/progressbar/v3", "github.com/tmaxmax/go-sse", "golang.org/x/net", "golang.org/x/term", "google.golang.org/grpc"}},
	"examples/...": {[]string{"record", "recorder", "recorder/direct", "agent", "agent/model", "agent/model/openai", "agent/plan", "agent/tool/files", "agent/tool/git", "agent/workflow", "examples/..."}, nil},
}

// reserved are the modules that only these lines of the table may have.
var reserved = map[string][]string{
	pgx: {"internal/pg", "internal/fieldsql", "internal/store", "internal/feed", "internal/upkeep", "internal/report",
		"db", "agent/tool/db", "internal/pgtest", "internal/storetest", "internal/apitest", "cmd/bench", "cmd/chaos"},
	mcpSDK: {"agent/mcp", "internal/mcp", "cmd/chaos"},
	wazero: {"agent/tool/code/internal/treesitter"},
	echo:   {"internal/httpd", "internal/api", "internal/mcp", "internal/receive", "internal/web", "internal/runapi", "cmd/bench", "cmd/..."},
}

// support are the packages that only tests, and each other, may import; and the benchmarks, which need a standby.
var support = []string{"internal/pgtest", "internal/pgtest/withpg", "internal/storetest", "internal/apitest", "internal/enginetest"}

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
	cmd.Dir = filepath.Join("..", "..")
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
				"in internal/imports; else move its code to the package whose sentence covers it")
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
		for _, heavy := range []string{"github.com/jackc/", "github.com/labstack/", "github.com/google/jsonschema-go", mcpSDK, module + "/internal/store", module + "/agent"} {
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
	if all[module+"/record"] == nil || all[module+"/internal/store"] == nil {
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
		{"internal/store", []string{pool.ImportPath, module + "/db"}, ""},
		{"internal/tree", []string{module + "/internal/store"}, "may not import"},
		{"internal/api", []string{pool.ImportPath}, "may not import"},
		{"cmd/anything", []string{module + "/internal/store", module + "/record"}, ""},
		{"cmd/anything", []string{pool.ImportPath}, "may not import"},
		{"examples/a/b", []string{module + "/examples/a", module + "/recorder/direct"}, ""},
		{"examples/a", []string{module + "/internal/store"}, "may not import"},
		{"cmd/anything", []string{module + "/internal/storetest"}, "may not import"},
		{"internal/apitest", []string{module + "/internal/store"}, ""},
		{"internal/fieldsql", []string{pool.ImportPath}, ""},
		{"internal/live", []string{pool.ImportPath}, "may not import"},
		{"internal/httpd", []string{module + "/internal/store"}, "may not import"},
		{"internal/util", nil, "not in the table"},
		{"internal/tree/deeper", nil, "not in the table"},
	} {
		p := &pkg{ImportPath: module + "/" + tt.name, Imports: tt.imports}
		all := map[string]*pkg{p.ImportPath: p, uuid.ImportPath: uuid, pool.ImportPath: pool, "fmt": {ImportPath: "fmt", Standard: true}}
		if got := strings.Join(breaches(all), "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s importing %q: %q, want %q", tt.name, tt.imports, got, tt.want)
		}
	}
}
