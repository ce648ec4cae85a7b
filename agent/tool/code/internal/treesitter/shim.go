package treesitter

import (
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
)

// shim is a module of WebAssembly without code. It exports what it imports, and what it declares: a memory, a table
// and globals.
type shim struct {
	functions []function
	shared    *shared
	globals   []global
}

// function is one that a shim passes on under the same name.
type function struct {
	from, name      string
	params, results []api.ValueType
}

// shared is a memory and a table of functions. They are declared, or passed on if from names a module.
type shared struct {
	from            string
	pages, maxPages uint32 // of pageSize
	functions       uint32 // that the table has space for
}

// pageSize is the unit of memory, in bytes.
const pageSize = 64 << 10

// global is a 32-bit number that others may read, and write if it is mutable.
type global struct {
	name    string
	value   uint32
	mutable bool
}

// The names of what is shared are those that the compiler writes into the files.
const (
	memoryName = "memory"
	tableName  = "__indirect_function_table"
)

// The bytes are those of https://webassembly.github.io/spec/core/binary/modules.html.
const (
	typeSection   = 1
	importSection = 2
	tableSection  = 4
	memorySection = 5
	globalSection = 6
	exportSection = 7

	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3

	functionType      = 0x60
	referenceType     = 0x70
	noMaximum         = 0
	withMaximum       = 1
	constantNumber    = 0x41
	endOfExpression   = 0x0b
	headerAndVersion1 = "\x00asm\x01\x00\x00\x00"
)

// encode returns the module in the binary format.
func (s shim) encode() []byte {
	var types, imports, tables, memories, globals, exports [][]byte
	for i, f := range s.functions {
		index := number(uint32(i))
		types = append(types, join([]byte{functionType}, bytesOf(f.params), bytesOf(f.results)))
		imports = append(imports, join(text(f.from), text(f.name), []byte{kindFunction}, index))
		exports = append(exports, join(text(f.name), []byte{kindFunction}, index))
	}

	if m := s.shared; m != nil {
		memory := join([]byte{withMaximum}, number(m.pages), number(m.maxPages))
		table := join([]byte{referenceType, noMaximum}, number(m.functions))
		if m.from == "" {
			memories, tables = [][]byte{memory}, [][]byte{table}
		} else {
			imports = append(imports,
				join(text(m.from), text(memoryName), []byte{kindMemory}, memory),
				join(text(m.from), text(tableName), []byte{kindTable}, table))
		}
		exports = append(exports, join(text(memoryName), []byte{kindMemory, 0}), join(text(tableName), []byte{kindTable, 0}))
	}

	for i, g := range s.globals {
		mutable := byte(0)
		if g.mutable {
			mutable = 1
		}
		globals = append(globals,
			join([]byte{api.ValueTypeI32, mutable, constantNumber}, signed(int32(g.value)), []byte{endOfExpression}))
		exports = append(exports, join(text(g.name), []byte{kindGlobal}, number(uint32(i))))
	}

	return join([]byte(headerAndVersion1),
		section(typeSection, types), section(importSection, imports), section(tableSection, tables),
		section(memorySection, memories), section(globalSection, globals), section(exportSection, exports))
}

func section(id byte, items [][]byte) []byte {
	if len(items) == 0 {
		return nil
	}
	body := join(number(uint32(len(items))), join(items...))
	return join([]byte{id}, bytesOf(body))
}

// bytesOf returns bytes after their number.
func bytesOf(b []byte) []byte { return join(number(uint32(len(b))), b) }

func text(s string) []byte { return bytesOf([]byte(s)) }

func number(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// signed returns a number as seven bits a byte, the lowest first. The sign is the highest bit of the last byte.
func signed(n int32) (b []byte) {
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if n == 0 && low&0x40 == 0 || n == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
