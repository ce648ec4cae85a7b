package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// upward is how many references between the files of a package may run upwards. A reference
// runs upwards if it closes a ring: the files of a package stand in layers, and each uses what
// lies below it. Lower a number when you remove references; do not raise one. The aim is 0, in
// store and api first.
var upward = map[string]int{
	"agent":             0,
	"agent/agenttest":   0,
	"agent/mcp":         0,
	"agent/redact":      0,
	"agent/plan":        0,
	"agent/sandbox":     0,
	"agent/tool":        0,
	"agent/tool/code":   0,
	"agent/tool/files":  0,
	"agent/tool/git":    0,
	"agent/tool/search": 0,
	"agent/tool/tests":  0,
	"agent/tool/http":   0,
	"agent/tool/db":     0,
	"agent/tool/shell":  0,
	"agent/tool/docker": 0,
	"agent/workflow":    0,

	"agent/tool/code/internal/treesitter": 0,

	"agent/tool/internal/folder": 0,
	"agent/internal/group":       0,
	"internal/record/store":      0,
	"internal/door/api":          0,
	"internal/door/runapi":       0,
	"internal/runtime/catalog":   0,
	"internal/runtime/runstore":  0,
	"internal/runtime/config":    0,
	"internal/runtime/define":    0,
	"internal/runtime/runs":      0,
	"internal/runtime/parts":     0,
	"internal/runtime/decision":  0,
	"internal/door/httpd":        0,
	"internal/trace/receive":     0,
	"internal/record/feed":       0,
	"internal/record/delta":      0,
	"internal/record/upkeep":     0,
	"internal/record/report":     0,
	"internal/door/mcp":          0,
	"internal/record/pg":         0,
	"internal/record/field":      0,
	"internal/record/fieldsql":   0,
	"internal/trace/otlp":        0,
	"internal/door/live":         30,
	"internal/door/lookup":       0,

	// executors are given a Run, which knows the executors that its calls start
	"internal/runtime/engine":                1,
	"internal/runtime/executor/plan/follow":  0,
	"internal/runtime/executor/plan":         0,
	"internal/runtime/executor/orchestrator": 0,
	"internal/runtime/executor/rounds":       0,
	"internal/runtime/executor/thinkact":     0,
	"internal/runtime/executor/workflow":     0,

	"agent/model":                    0,
	"agent/model/openai":             0,
	"agent/model/anthropic":          0,
	"agent/model/internal/modelhttp": 0,
}

// maxRing bounds the files of a ring: the time to find their best order doubles with each.
const maxRing = 18

// TestFilesHaveLayers fails if files of a package depend on each other in a ring.
func TestFilesHaveLayers(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(upward))
	files, export := listFiles(t, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uses, err := fileUses(name, files[name], export)
			if err != nil {
				t.Fatal(err)
			}

			var found []string
			for _, ring := range rings(uses) {
				if len(ring) > maxRing {
					t.Fatalf("%d files use each other, too many to find an order: %s", len(ring), strings.Join(ring, ", "))
				}
				found = append(found, upwards(uses, ring)...)
			}
			slices.Sort(found)
			if limit := upward[name]; len(found) > limit {
				t.Errorf("%d references run upwards, %d may. Move one side of each to another file:\n%s", len(found), limit,
					strings.Join(found, "\n"))
			} else if len(found) < limit {
				t.Errorf("only %d references run upwards: lower the number in the table, which is %d", len(found), limit)
			}
		})
	}
}

// listFiles returns the Go files of packages of this module by name, without tests, and the
// export data of all packages that they import by path.
func listFiles(t *testing.T, names []string) (files map[string][]string, export map[string]string) {
	t.Helper()
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export"}
	for _, name := range names {
		args = append(args, "./"+name)
	}

	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..", "..")
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, failed.String())
	}

	files, export = map[string][]string{}, map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files, export
		} else if err != nil {
			t.Fatal(err)
		}

		export[p.ImportPath] = p.Export
		name, _ := strings.CutPrefix(p.ImportPath, module+"/")
		for _, file := range p.GoFiles {
			files[name] = append(files[name], filepath.Join(p.Dir, file))
		}
	}
}

// graph has the references from one file to another: a line for each thing that is used.
type graph map[string]map[string][]string

// fileUses returns which file of a package uses what of which other file: types, functions,
// variables, constants, methods and fields.
func fileUses(name string, files []string, export map[string]string) (graph, error) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}

	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := config.Check(module+"/"+name, fset, parsed, info)
	if err != nil {
		return nil, err
	}

	first := map[[2]string]map[types.Object]token.Position{} // where a file first uses a thing of another
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		at, declared := fset.Position(id.Pos()), fset.Position(object.Pos())
		edge := [2]string{filepath.Base(at.Filename), filepath.Base(declared.Filename)}
		if edge[0] == edge[1] {
			continue
		}

		if first[edge] == nil {
			first[edge] = map[types.Object]token.Position{}
		}
		if before, ok := first[edge][object]; !ok || at.Offset < before.Offset {
			first[edge][object] = at
		}
	}

	uses := graph{}
	for edge, objects := range first {
		if uses[edge[0]] == nil {
			uses[edge[0]] = map[string][]string{}
		}
		for object, at := range objects {
			uses[edge[0]][edge[1]] = append(uses[edge[0]][edge[1]],
				fmt.Sprintf("%s:%d uses %s of %s", edge[0], at.Line, object.Name(), edge[1]))
		}
		slices.Sort(uses[edge[0]][edge[1]])
	}
	return uses, nil
}

// reach returns the files that a file uses, directly or through others.
func (g graph) reach(from string) map[string]bool {
	seen := map[string]bool{}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for to := range g[next[0]] {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}

// rings returns the groups of files that all use each other, directly or through others.
func rings(g graph) (all [][]string) {
	reach := map[string]map[string]bool{}
	for file := range g {
		reach[file] = g.reach(file)
	}

	done := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(g)) {
		if done[file] || !reach[file][file] {
			continue
		}

		var ring []string
		for _, other := range slices.Sorted(maps.Keys(reach[file])) {
			if reach[other][file] {
				ring = append(ring, other)
				done[other] = true
			}
		}
		all = append(all, ring)
	}
	return all
}

// upwards returns the references that run upwards in the best order of the files of a ring: the
// one with the fewest of them.
func upwards(g graph, ring []string) []string {
	n := len(ring)
	// best is by the set of files that stand at the bottom: how many references run upwards
	// among them, and which of them stands on top.
	type layers struct{ references, top int }
	best := make([]layers, 1<<n)
	for set := 1; set < len(best); set++ {
		best[set].references = math.MaxInt
		for top := range n {
			if set&(1<<top) == 0 {
				continue
			}

			below := set &^ (1 << top)
			references := best[below].references
			for file := range n {
				if below&(1<<file) != 0 {
					references += len(g[ring[file]][ring[top]])
				}
			}
			if references < best[set].references {
				best[set] = layers{references, top}
			}
		}
	}

	var found []string
	for set := len(best) - 1; set > 0; {
		top := best[set].top
		set &^= 1 << top
		for file := range n {
			if set&(1<<file) != 0 {
				found = append(found, g[ring[file]][ring[top]]...)
			}
		}
	}
	return found
}

// TestRingsAreSeen: each ring is found, with the fewest references that close it.
func TestRingsAreSeen(t *testing.T) {
	t.Parallel()
	g := graph{
		"a": {"b": {"a->b 1", "a->b 2"}, "z": {"a->z"}},
		"b": {"c": {"b->c 1", "b->c 2"}},
		"c": {"a": {"c->a"}, "d": {"c->d"}},
		"d": {"e": {"d->e"}},
		"e": {"d": {"e->d 1", "e->d 2"}},
		"f": {"a": {"f->a"}},
	}

	found := rings(g)
	if got, want := fmt.Sprint(found), "[[a b c] [d e]]"; got != want {
		t.Fatalf("rings %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(upwards(g, found[0]), upwards(g, found[1])), "[c->a] [d->e]"; got != want {
		t.Errorf("upwards %s, want %s", got, want)
	}
}
