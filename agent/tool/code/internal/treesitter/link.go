package treesitter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Where things are in the memory, in bytes.
const (
	coreStart = 1 << 10
	stackSize = 1 << 20
	minMemory = 32 << 20 // what the core asks for
	maxMemory = 256 << 20
)

// machine is what all languages share. It is made once in a process, when the first text is parsed.
type machine struct {
	runtime wazero.Runtime
	core    wazero.CompiledModule
	needs   space // of the core
}

// space is what a part needs for itself.
type space struct{ memory, table uint32 }

var theMachine = sync.OnceValues(func() (*machine, error) {
	ctx := context.Background()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(maxMemory / pageSize).WithCustomSections(true)
	m := &machine{runtime: wazero.NewRuntimeWithConfig(ctx, config)}

	var err error
	if m.core, m.needs, err = m.compile("web-tree-sitter"); err != nil {
		return nil, err
	}

	host := m.runtime.NewHostModuleBuilder("host")
	for _, f := range imported(m.core, "host") {
		host.NewFunctionBuilder().WithGoModuleFunction(hostFunction(f.name), f.params, f.results).Export(f.name)
	}
	_, err = host.Instantiate(ctx) // the runtime keeps it by its name
	return m, err
})

// compile compiles a file, and says how much space it needs.
func (m *machine) compile(name string) (wazero.CompiledModule, space, error) {
	code, err := file(name)
	if err != nil {
		return nil, space{}, err
	}

	compiled, err := m.runtime.CompileModule(context.Background(), code)
	if err != nil {
		return nil, space{}, fmt.Errorf("compile %s: %w", name, err)
	}
	needs, err := spaceOf(compiled)
	if err != nil {
		return nil, space{}, fmt.Errorf("%s: %w", name, err)
	}
	return compiled, needs, nil
}

// spaceOf reads the section of a shared library that says how much space it needs, which comes first in it:
// https://github.com/WebAssembly/tool-conventions/blob/main/DynamicLinking.md.
func spaceOf(m wazero.CompiledModule) (space, error) {
	for _, section := range m.CustomSections() {
		if section.Name() != "dylink.0" {
			continue
		}

		var numbers [6]uint64 // kind, length, memory, its alignment, table, its alignment
		rest := section.Data()
		for i := range numbers {
			n, length := binary.Uvarint(rest)
			if length <= 0 {
				return space{}, errors.New("the section dylink.0 is too short")
			}
			numbers[i], rest = n, rest[length:]
		}
		return space{uint32(numbers[2]), uint32(numbers[4])}, nil
	}
	return space{}, errors.New("there is no section dylink.0")
}

// imported returns the functions that a module imports, as ones that another module has.
func imported(m wazero.CompiledModule, from string) (all []function) {
	for _, f := range m.ImportedFunctions() {
		_, name, _ := f.Import()
		all = append(all, function{from, name, f.ParamTypes(), f.ResultTypes()})
	}
	return all
}

// grammar is a language that is compiled, with all that its instances are linked of.
type grammar struct {
	language Language
	machine  *machine

	code, env, got, grammarEnv wazero.CompiledModule
}

var theGrammars = func() (all [languages]func() (*grammar, error)) {
	for l := range all {
		all[l] = sync.OnceValues(func() (*grammar, error) { return compileGrammar(Language(l)) })
	}
	return all
}()

func compileGrammar(l Language) (*grammar, error) {
	m, err := theMachine()
	if err != nil {
		return nil, err
	}

	g := &grammar{language: l, machine: m}
	var needs space
	if g.code, needs, err = m.compile("tree-sitter-" + l.String()); err != nil {
		return nil, err
	}

	start := align(coreStart + m.needs.memory)
	stackLow := align(start + needs.memory)
	stackHigh := stackLow + stackSize
	common := shared{
		pages: minMemory / pageSize, maxPages: maxMemory / pageSize, functions: 1 + m.needs.table + needs.table,
	}
	again := common
	again.from = "core env"

	for _, each := range []struct {
		to *wazero.CompiledModule
		as shim
	}{
		{&g.env, shim{functions: imported(m.core, "host"), shared: &common, globals: []global{
			{"__stack_pointer", stackHigh, true}, {"__memory_base", coreStart, false}, {"__table_base", 1, false},
		}}},
		{&g.got, shim{globals: []global{
			{"__stack_low", stackLow, true}, {"__stack_high", stackHigh, true}, {"__heap_base", stackHigh, true},
		}}},
		{&g.grammarEnv, shim{functions: imported(g.code, "core"), shared: &again, globals: []global{
			{"__memory_base", start, false}, {"__table_base", 1 + m.needs.table, false},
		}}},
	} {
		if *each.to, err = m.runtime.CompileModule(context.Background(), each.as.encode()); err != nil {
			return nil, fmt.Errorf("link %s: %w", l, err)
		}
	}
	return g, nil
}

func align(n uint32) uint32 { return (n + 15) &^ 15 }

// linked are the modules of an instance.
type linked struct {
	core, grammar api.Module
	all           []api.Module
}

// link makes the modules of an instance. Close them when they are not needed any more, also after an error.
func (g *grammar) link() (l linked, err error) {
	there := map[string]api.Module{} // besides the host
	add := func(m wazero.CompiledModule) (made api.Module) {
		if err != nil {
			return nil
		}

		ctx := experimental.WithImportResolver(context.Background(), func(name string) api.Module { return there[name] })
		made, err = g.machine.runtime.InstantiateModule(ctx, m, wazero.NewModuleConfig().WithName("").WithStartFunctions())
		if err == nil {
			l.all = append(l.all, made)
		}
		return made
	}

	there["env"] = add(g.env)
	there["wasi_snapshot_preview1"] = there["env"]
	there["GOT.mem"] = add(g.got)
	l.core = add(g.machine.core)

	there["core env"], there["core"] = there["env"], l.core
	there["env"] = add(g.grammarEnv)
	l.grammar = add(g.code)
	return l, err
}

// close gives the memory of the modules back, those first that use others.
func (l linked) close() {
	for _, m := range slices.Backward(l.all) {
		_ = m.Close(context.Background()) // only code that ends with a number fails here
	}
}
