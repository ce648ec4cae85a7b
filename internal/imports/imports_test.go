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

// rule is what the code of a package may import, tests apart, beside the
// standard library.
type rule struct {
	ours    []string // packages of this module; "..." at the end: all below
	modules []string // of others
}

// rules is the table of architecture.md. A key that ends in "/..." holds for
// whatever lies below and has no line of its own.
var rules = map[string]rule{
	"record":           {nil, []string{"github.com/google/uuid"}},
	"recorder":         {[]string{"record", "internal/wire"}, nil},
	"recorder/direct":  {[]string{"record", "recorder", "internal/store"}, nil},
	"recorder/spool":   {[]string{"record", "recorder", "internal/wire"}, []string{"github.com/tidwall/wal"}},
	"db":               {nil, []string{"github.com/jackc/pgx/v5"}},
	"migrations":       {nil, nil},
	"internal/wire":    {[]string{"record"}, []string{"github.com/go-json-experiment/json", "github.com/klauspost/compress"}},
	"internal/tree":    {[]string{"record"}, nil},
	"internal/store":   {[]string{"record", "internal/tree", "internal/upsert", "db", "migrations"}, []string{"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2", "github.com/pressly/goose/v3"}},
	"internal/live":    {[]string{"record", "internal/store"}, nil},
	"internal/otlp":    {[]string{"record"}, []string{"github.com/klauspost/compress", "go.opentelemetry.io/collector/pdata"}},
	"internal/embedpg": {nil, []string{"github.com/fergusstrange/embedded-postgres", "golang.org/x/sys"}},
	// The store gives trees, so whoever shows them names their types. Exporters come by
	// HTTP and by gRPC.
	"internal/api":           {[]string{"record", "internal/wire", "internal/store", "internal/live", "internal/otlp", "internal/tree"}, []string{"github.com/cespare/xxhash/v2", "github.com/klauspost/compress", "github.com/labstack/echo/v4", "github.com/prometheus/client_golang", "github.com/segmentio/encoding", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	"internal/pgtest":        {[]string{"migrations", "internal/embedpg"}, []string{"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "github.com/testcontainers/testcontainers-go", "github.com/testcontainers/testcontainers-go/modules/postgres", "go.uber.org/goleak"}},
	"internal/pgtest/withpg": {[]string{"internal/pgtest"}, nil},
	"internal/scriptmodel":   {nil, nil},
	"internal/imports":       {nil, nil},
	"clients":                {nil, nil},
	"internal/upsert":        {[]string{"record"}, nil},
	"internal/writegen":      {[]string{"record", "internal/upsert"}, nil},
	// It measures Postgres itself beside us, compresses to describe its texts, and exports.
	"cmd/bench":    {[]string{"..."}, []string{"github.com/jackc/pgx/v5", "github.com/klauspost/compress", "github.com/labstack/echo/v4", "github.com/tmaxmax/go-sse", "go.opentelemetry.io/collector/pdata"}},
	"cmd/...":      {[]string{"..."}, []string{"github.com/alecthomas/kong", "github.com/klauspost/compress", "github.com/labstack/echo/v4", "github.com/schollz/progressbar/v3", "github.com/tmaxmax/go-sse", "golang.org/x/net", "golang.org/x/term", "google.golang.org/grpc"}},
	"examples/...": {[]string{"record", "recorder", "recorder/direct", "internal/scriptmodel", "examples/..."}, nil},
}

// pkg is what `go list` tells of a package.
type pkg struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
}

// list gives the packages that this module's consist of, by path: its own and
// all that they are built from.
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

// ruleFor finds the line of a package, or of the folder that it lies in.
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

// breaches says what each package imports against its rule.
func breaches(all map[string]*pkg) (said []string) {
	for _, p := range all {
		name, ok := strings.CutPrefix(p.ImportPath, module+"/")
		if !ok {
			continue
		}
		r, ok := ruleFor(name)
		if !ok {
			said = append(said, "package "+name+" is not in the table: if one sentence says what it owns, add a line for it to rules "+
				"in internal/imports and to \"Who may import whom\" in the architecture's document; else put its code where that sentence exists")
			continue
		}
		for _, path := range p.Imports {
			if imported, ok := strings.CutPrefix(path, module+"/"); ok {
				if !r.allows(imported) {
					said = append(said, name+" may not import "+imported)
				}
				continue
			}
			of := all[path]
			if of == nil || of.Standard { // "C" and "unsafe" are not listed
				continue
			}
			if of.Module == nil || !slices.Contains(r.modules, of.Module.Path) {
				said = append(said, name+" may not import "+path)
			}
		}
	}
	slices.Sort(said)
	return said
}

func TestImports(t *testing.T) {
	t.Parallel()
	all := list(t)
	for _, b := range breaches(all) {
		t.Error(b)
	}
	// What an agent program links, all the way down.
	for _, p := range reached(all, module+"/recorder") {
		for _, heavy := range []string{"github.com/jackc/", "github.com/labstack/", module + "/internal/store"} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("an agent that holds a recorder links %s", p)
			}
		}
	}
	if all[module+"/record"] == nil || all[module+"/internal/store"] == nil {
		t.Error("the packages of this module were not looked at")
	}
}

// reached gives all that a package is built from.
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

// TestBreachesAreSeen: the rules can be broken.
func TestBreachesAreSeen(t *testing.T) {
	t.Parallel()
	uuid := &pkg{ImportPath: "github.com/google/uuid", Module: &struct{ Path string }{"github.com/google/uuid"}}
	pgx := &pkg{ImportPath: "github.com/jackc/pgx/v5/pgxpool", Module: &struct{ Path string }{"github.com/jackc/pgx/v5"}}
	for _, tt := range []struct {
		name    string
		imports []string
		want    string
	}{
		{"record", []string{"fmt", uuid.ImportPath}, ""},
		{"record", []string{pgx.ImportPath}, "may not import"},
		{"record", []string{module + "/recorder"}, "may not import"},
		{"internal/store", []string{pgx.ImportPath, module + "/db"}, ""},
		{"internal/tree", []string{module + "/internal/store"}, "may not import"},
		{"internal/api", []string{pgx.ImportPath}, "may not import"},
		{"cmd/anything", []string{module + "/internal/store", module + "/record"}, ""},
		{"cmd/anything", []string{pgx.ImportPath}, "may not import"},
		{"examples/a/b", []string{module + "/examples/a", module + "/recorder/direct"}, ""},
		{"examples/a", []string{module + "/internal/store"}, "may not import"},
		{"internal/util", nil, "not in the table"},
		{"internal/tree/deeper", nil, "not in the table"},
	} {
		p := &pkg{ImportPath: module + "/" + tt.name, Imports: tt.imports}
		all := map[string]*pkg{p.ImportPath: p, uuid.ImportPath: uuid, pgx.ImportPath: pgx, "fmt": {ImportPath: "fmt", Standard: true}}
		if got := strings.Join(breaches(all), "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s importing %q: %q, want %q", tt.name, tt.imports, got, tt.want)
		}
	}
}
