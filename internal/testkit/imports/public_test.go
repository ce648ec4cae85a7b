package imports

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// public returns the packages that programs import.
func public(t *testing.T) (names []string) {
	t.Helper()
	for path := range list(t) {
		name, ours := strings.CutPrefix(path, module+"/")
		if ours && covered([]string{"record", "recorder/...", "agent/..."}, name) && !strings.Contains(name, "/internal/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestPublicTypes: what public packages export shows no type of an internal package, whose name programs
// cannot say. Their types are their own, and no other names of those of another package.
func TestPublicTypes(t *testing.T) {
	t.Parallel()
	public := public(t)
	if !slices.Contains(public, "agent/config") || !slices.Contains(public, "recorder/spool") {
		t.Fatalf("the public packages are %v", public)
	}

	_, export := listFiles(t, public)
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})
	for _, name := range public {
		p, err := load.Import(module + "/" + name)
		if err != nil {
			t.Fatal(err)
		}

		for _, name := range p.Scope().Names() {
			o, isType := p.Scope().Lookup(name).(*types.TypeName)
			if isType && o.Exported() && o.IsAlias() {
				t.Errorf("%s: %s is another name of %s", p.Path(), name, types.Unalias(o.Type()))
			}
		}
		for _, found := range internalTypes(p) {
			t.Errorf("%s: %s", name, found)
		}
	}

	_, export = listFiles(t, []string{"internal/runtime/engine"})
	engine, err := load.Import(module + "/internal/runtime/engine")
	if err != nil {
		t.Fatal(err)
	}
	if found := internalTypes(engine); !slices.ContainsFunc(found, func(s string) bool {
		return strings.Contains(s, "Config") && strings.Contains(s, "store.Store")
	}) {
		t.Errorf("the types of internal/record/store in internal/runtime/engine are not seen: %q", found)
	}
}

// internalTypes returns where a package exports types of other packages that are internal.
func internalTypes(p *types.Package) (found []string) {
	seen := map[types.Type]bool{}
	var walk func(where string, t types.Type)
	each := func(where string, tuple *types.Tuple) {
		for v := range tuple.Variables() {
			walk(where, v.Type())
		}
	}
	members := func(where string, t *types.Named) {
		for m := range t.Methods() {
			if m.Exported() {
				walk(where+"."+m.Name(), m.Type())
			}
		}
	}

	walk = func(where string, t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true

		switch t := t.(type) {
		case *types.Alias:
			walk(where, types.Unalias(t))
		case *types.Named:
			for of := range t.TypeArgs().Types() {
				walk(where, of)
			}
			switch of := t.Obj().Pkg(); {
			case of == nil: // error
			case of == p:
				members(where, t)
				walk(where, t.Underlying())
			case strings.HasPrefix(of.Path(), module+"/") && strings.Contains(of.Path(), "/internal/"):
				found = append(found, where+" shows "+strings.TrimPrefix(t.String(), module+"/"))
			}
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					walk(where+"."+f.Name(), f.Type())
				}
			}
		case *types.Interface:
			for m := range t.Methods() {
				if m.Exported() {
					walk(where+"."+m.Name(), m.Type())
				}
			}
		case *types.Signature:
			each(where, t.Params())
			each(where, t.Results())
		case *types.Map:
			walk(where, t.Key())
			walk(where, t.Elem())
		case interface{ Elem() types.Type }: // pointers, lists, channels
			walk(where, t.Elem())
		}
	}

	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			walk(name, o.Type())
		}
	}
	return found
}
