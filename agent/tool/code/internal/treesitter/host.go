package treesitter

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero/api"
)

// errAborted says that the parser gave up: as a rule, because it needs more memory than it may have.
var errAborted = errors.New("the parser aborted")

// reading is the key of a context for the text that is parsed, in UTF-16 with the lower byte first.
type reading struct{}

// hostFunction returns a function in Go for what the core imports. Functions of C's library that it never needs while
// it parses fail.
func hostFunction(name string) api.GoModuleFunc {
	switch name {
	case "tree_sitter_parse_callback":
		return readText
	case "tree_sitter_progress_callback":
		return stopInTime
	case "emscripten_resize_heap":
		return growMemory
	case "_abort_js":
		return func(context.Context, api.Module, []uint64) { panic(errAborted) } // wazero makes an error of the call
	case "fd_write", "fd_seek", "fd_close":
		return func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = badFile }
	}

	return func(_ context.Context, _ api.Module, stack []uint64) { // of queries, and the log
		if len(stack) > 0 {
			stack[0] = 0
		}
	}
}

// badFile is WASI's number for a file that is not open.
const badFile = 8

// maxRead is how many units of two bytes the core has space for, without the last one.
const maxRead = 10*1024/2 - 1

// readText copies the text from an index on: (buffer, index, row, column, *length).
func readText(ctx context.Context, m api.Module, stack []uint64) {
	buffer, length := uint32(stack[0]), uint32(stack[4])
	index := int(uint32(stack[1]))
	text, _ := ctx.Value(reading{}).([]byte)
	rest := text[min(2*index, len(text)):]
	rest = rest[:min(len(rest), 2*maxRead)]

	if ctx.Err() != nil {
		rest = nil // a long comment is read without asking whether to stop
	}
	if !m.Memory().Write(buffer, rest) || !m.Memory().WriteUint32Le(length, uint32(len(rest)/2)) {
		panic(errAborted)
	}
}

// stopInTime returns whether the parsing is to end: (offset, error) -> stop.
func stopInTime(ctx context.Context, _ api.Module, stack []uint64) {
	stack[0] = 0
	if ctx.Err() != nil {
		stack[0] = 1
	}
}

// growMemory makes the memory as large as it should be, unless that is too much: (bytes) -> done.
func growMemory(_ context.Context, m api.Module, stack []uint64) {
	want, have := uint32(stack[0]), m.Memory().Size()
	stack[0] = 1
	if want <= have {
		return
	}

	if _, ok := m.Memory().Grow((want - have + pageSize - 1) / pageSize); !ok {
		stack[0] = 0
	}
}
