package treesitter

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// instance is a parser of one language with a memory of its own. One text is parsed at a time.
type instance struct {
	linked
	memory   api.Memory
	grammar  *grammar
	transfer uint32 // address at which functions take and return what is more than a number
	parser   uint64 // address of the parser, and of the buffer that it reads the text through
	input    uint64

	symbols []symbol // kinds of nodes by their numbers
	fields  []string // by their numbers

	called map[string]api.Function
	stack  [8]uint64
}

// symbol is a kind of node.
type symbol struct {
	name  string
	named bool
}

// newInstance links an instance. An error is one of the program or of memory, and not of a text.
func newInstance(g *grammar) (*instance, error) {
	modules, err := g.link()
	if err != nil {
		modules.close()
		return nil, fmt.Errorf("link %s: %w", g.language, err)
	}

	i := &instance{linked: modules, memory: modules.core.Memory(), grammar: g, called: map[string]api.Function{}}
	if err := i.start(); err != nil {
		i.close()
		return nil, fmt.Errorf("start %s: %w", g.language, err)
	}
	return i, nil
}

func (i *instance) start() error {
	c := caller{instance: i, ctx: context.Background()}
	for _, m := range []api.Module{i.core, i.linked.grammar} {
		for _, name := range []string{"__wasm_apply_data_relocs", "__wasm_call_ctors"} {
			c.callIn(m, name)
		}
	}
	i.transfer = uint32(c.call("ts_init"))
	language := c.callIn(i.linked.grammar, "tree_sitter_"+i.grammar.language.String())

	c.call("ts_parser_new_wasm")
	i.parser, i.input = uint64(c.number(i.transfer)), uint64(c.number(i.transfer+4))
	if c.call("ts_parser_set_language", i.parser, language) == 0 && c.err == nil {
		return fmt.Errorf("the core does not take version %d of grammars", c.call("ts_language_abi_version", language))
	}

	for s := range c.call("ts_language_symbol_count", language) {
		i.symbols = append(i.symbols, symbol{
			name:  c.text(uint32(c.call("ts_language_symbol_name", language, s))),
			named: c.call("ts_language_type_is_named_wasm", language, s) != 0,
		})
	}
	i.fields = []string{""}
	for f := range c.call("ts_language_field_count", language) {
		i.fields = append(i.fields, c.text(uint32(c.call("ts_language_field_name_for_id", language, f+1))))
	}
	return c.err
}

// caller calls functions of an instance. After an error it calls nothing any more.
type caller struct {
	*instance
	ctx context.Context
	err error
}

// call calls a function of the core.
func (c *caller) call(name string, arguments ...uint64) uint64 {
	return c.callIn(c.core, name, arguments...)
}

func (c *caller) callIn(m api.Module, name string, arguments ...uint64) uint64 {
	if c.err != nil {
		return 0
	}

	f := c.called[name]
	if f == nil || m != c.core {
		if f = m.ExportedFunction(name); f == nil {
			c.err = fmt.Errorf("there is no function %s", name)
			return 0
		}
	}
	if m == c.core {
		c.called[name] = f
	}

	c.stack[0] = 0 // for functions without arguments and results
	copy(c.stack[:], arguments)
	if err := f.CallWithStack(c.ctx, c.stack[:]); err != nil {
		c.err = fmt.Errorf("%s: %w", name, err)
		return 0
	}
	return c.stack[0]
}

// number returns the number at an address.
func (c *caller) number(at uint32) uint32 {
	n, ok := c.memory.ReadUint32Le(at)
	if !ok && c.err == nil {
		c.err = fmt.Errorf("the address %d is outside of the memory", at)
	}
	return n
}

// maxName bounds the names of symbols and fields, in bytes.
const maxName = 256

// text returns the text at an address, up to its zero byte.
func (c *caller) text(at uint32) string {
	for n := range uint32(maxName) {
		if b, ok := c.memory.ReadByte(at + n); !ok || b == 0 {
			text, _ := c.memory.Read(at, n)
			return string(text)
		}
	}
	return ""
}
