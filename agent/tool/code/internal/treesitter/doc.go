// Package treesitter owns the parsing of Python, Java, TypeScript and JavaScript: a text becomes a tree of nodes, also
// where it has errors of syntax.
//
// The parser is tree-sitter, which is written in C. It runs as WebAssembly, so that no C compiler is needed and no text
// can do more than fail within its own memory. The folder wasm has the official builds: the core, which is the same for
// all languages, and a grammar for each language.
//
// # How the parts are linked
//
// The core and the grammars are made to be loaded side by side into one memory, as shared libraries are. Whoever loads
// them says where each may put its data, and hands out what they share. In browsers a script does this; here it is
// link.go. The memory is laid out so:
//
//	0        nothing: a null pointer points here
//	1024     data of the core
//	         data of the grammar
//	         the stack, 1 MiB
//	         the heap, up to the end of the memory
//
// Both parts import by name what they need. Names are looked up in modules without code of their own, which shim.go
// writes. They only pass on what others have:
//
//	for the core     "env"      the memory, a table of functions, where data and stack begin; functions in Go that
//	                            hand out the text, and that end the parsing in time
//	                 "GOT.mem"  where stack and heap begin and end
//	for the grammar  "env"      the same memory and table, where its data begins; functions of the core
//
// Once both are there, each corrects the addresses in its data (__wasm_apply_data_relocs). The grammar then returns the
// address of its tables, which the core parses by.
package treesitter
