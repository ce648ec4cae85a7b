package code

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// unit is what imports and is imported: a package of Go, or a file.
type unit struct {
	Name       string   `json:"name"`
	Imports    []string `json:"imports"`    // units of the folder
	ImportedBy []string `json:"importedBy"` // units of the folder
	Standard   []string `json:"standard,omitempty"`
	Others     []string `json:"others,omitempty"` // from elsewhere, by the names of the imports
	Estimate   bool     `json:"estimate,omitempty"`
}

// dependencies are those of the code of a folder.
type dependencies struct {
	Units  []*unit    `json:"parts"`
	Cycles [][]string `json:"cycles"` // units that import each other

	edges []edge
}

// edge is the first import of a unit by another.
type edge struct {
	from, to string
	file     *measured
	line     int
}

// module is one of Go: its name, and its folder.
type module struct{ name, dir string }

// depend finds what imports what. Tests of Go are left out: they may import what imports their package.
func depend(files []measured, modules []module) dependencies {
	g := graph{
		units: map[string]*unit{}, seen: map[[2]string]bool{}, modules: modules, paths: map[string]bool{},
		byBase: map[string][]string{},
	}
	for _, m := range files {
		g.paths[m.Path] = true
		base := stem(path.Base(m.Path))
		g.byBase[base] = append(g.byBase[base], m.Path)
	}

	for i := range files {
		m := &files[i]
		if strings.HasSuffix(m.Path, "_test.go") {
			continue
		}

		name := m.Path
		if m.Language == "Go" {
			name = path.Dir(m.Path)
		}
		p := g.unit(name)
		p.Estimate = m.Estimate

		for _, each := range m.imports {
			if to, standard := g.target(m, each); to != "" {
				g.edge(p, to, m, each.line)
			} else if standard {
				p.Standard = append(p.Standard, each.name)
			} else {
				p.Others = append(p.Others, each.name)
			}
		}
	}

	d := dependencies{Units: []*unit{}, Cycles: [][]string{}, edges: g.edges}
	for _, name := range slices.Sorted(maps.Keys(g.units)) {
		p := g.units[name]
		for _, list := range []*[]string{&p.Imports, &p.ImportedBy, &p.Standard, &p.Others} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		d.Units = append(d.Units, p)
	}
	d.Cycles = append(d.Cycles, cycles(g.units)...)
	return d
}

type graph struct {
	units   map[string]*unit
	seen    map[[2]string]bool
	edges   []edge
	modules []module
	paths   map[string]bool
	byBase  map[string][]string // paths, by file name without its end
}

func (g *graph) unit(name string) *unit {
	if g.units[name] == nil {
		g.units[name] = &unit{Name: name, Imports: []string{}, ImportedBy: []string{}}
	}
	return g.units[name]
}

func (g *graph) edge(from *unit, to string, m *measured, line int) {
	if key := [2]string{from.Name, to}; to != from.Name && !g.seen[key] {
		g.seen[key] = true
		g.edges = append(g.edges, edge{from.Name, to, m, line})
		from.Imports = append(from.Imports, to)
		other := g.unit(to)
		other.ImportedBy = append(other.ImportedBy, from.Name)
	}
}

// target returns the unit of the folder that an import of a file means, or "". Then it reports whether
// the import is of the standard library of Go.
func (g *graph) target(m *measured, each imported) (to string, standard bool) {
	name := each.name
	if m.Language == "Go" {
		for _, mod := range g.modules {
			if rest, ok := strings.CutPrefix(name, mod.name); ok && (rest == "" || rest[0] == '/') {
				return path.Join(mod.dir, rest), false
			}
		}
		first, _, _ := strings.Cut(name, "/")
		return "", !strings.Contains(first, ".")
	}

	tries := each.tries
	if len(tries) == 0 {
		tries = []string{name}
	}
	for _, t := range tries {
		if to := g.file(m, t); to != "" {
			return to, false
		}
	}
	return "", false
}

// file returns the file that an import means: one of that path relative to the importing file or to the top folder,
// or, unless it says relative to what, the only one whose path ends so.
func (g *graph) file(m *measured, name string) string {
	name, folders, relative := places(m, name)
	for _, from := range folders {
		base := path.Join(from, name)
		for _, end := range append([]string{""}, endings[m.Language]...) {
			if g.paths[base+end] {
				return base + end
			}
		}
	}

	if relative || !strings.Contains(name, "/") {
		return ""
	}

	var found []string
	for _, at := range g.byBase[stem(path.Base(name))] {
		if strings.HasSuffix("/"+stem(at), "/"+stem(name)) && languages[path.Ext(at)] == m.Language {
			found = append(found, at)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// places returns what an import names as a path, and the folders in which that may be. relative says that it can only
// be there.
func places(m *measured, name string) (at string, folders []string, relative bool) {
	dir := path.Dir(m.Path)
	relative = strings.HasPrefix(name, ".")
	switch {
	case m.Language == "Python":
		bare := strings.TrimLeft(name, ".")
		for range len(name) - len(bare) - 1 {
			dir = path.Dir(dir)
		}
		name = strings.ReplaceAll(bare, ".", "/")
	case m.Language == "TypeScript" || m.Language == "JavaScript":
		if !relative { // a package, or a path from the top folder
			return name, []string{"."}, false
		}
	case !strings.ContainsAny(name, "/") && languages[path.Ext(name)] == "":
		name = strings.NewReplacer("::", "/", `\`, "/", ".", "/").Replace(strings.TrimPrefix(name, "crate::"))
	}

	if relative {
		return name, []string{dir}, true
	}
	return name, []string{dir, "."}, false
}

// endings are what an import leaves out of the path of a file, by language.
var endings = func() map[string][]string {
	m := map[string][]string{}
	for _, end := range slices.Sorted(maps.Keys(languages)) {
		m[languages[end]] = append(m[languages[end]], end, "/index"+end)
	}

	m["TypeScript"] = append(m["TypeScript"], m["JavaScript"]...)
	m["JavaScript"] = append(m["JavaScript"], m["TypeScript"]...)
	m["Python"] = append(m["Python"], "/__init__.py")
	m["Rust"] = append(m["Rust"], "/mod.rs")
	return m
}()

// stem returns a path without the end of its file name, if that is of a language.
func stem(at string) string {
	if end := path.Ext(at); languages[end] != "" {
		return strings.TrimSuffix(at, end)
	}
	return at
}

// cycles returns the units that import each other, by Tarjan's algorithm without recursion.
func cycles(parts map[string]*unit) (found [][]string) {
	type frame struct {
		name string
		next int
	}

	index, low := map[string]int{}, map[string]int{}
	on := map[string]bool{}
	var stack []string
	for _, root := range slices.Sorted(maps.Keys(parts)) {
		if _, ok := index[root]; ok {
			continue
		}

		frames := []frame{{name: root}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if _, ok := index[f.name]; !ok {
				index[f.name], low[f.name] = len(index), len(index)
				stack = append(stack, f.name)
				on[f.name] = true
			}

			if imports := parts[f.name].Imports; f.next < len(imports) {
				to := imports[f.next]
				f.next++
				if _, ok := index[to]; !ok {
					frames = append(frames, frame{name: to})
				} else if on[to] {
					low[f.name] = min(low[f.name], index[to])
				}
				continue
			}

			if low[f.name] == index[f.name] {
				at := slices.Index(stack, f.name)
				ring := slices.Clone(stack[at:])
				stack = stack[:at]
				for _, name := range ring {
					on[name] = false
				}
				if len(ring) > 1 {
					slices.Sort(ring)
					found = append(found, ring)
				}
			}

			done := frames[len(frames)-1].name
			if frames = frames[:len(frames)-1]; len(frames) > 0 {
				above := frames[len(frames)-1].name
				low[above] = min(low[above], low[done])
			}
		}
	}

	slices.SortFunc(found, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return found
}
