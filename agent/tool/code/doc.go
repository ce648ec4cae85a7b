// Package code owns the tools that measure and change the code of one folder: code.analyze_code,
// code.analyze_complexity, code.analyze_dependencies, code.detect_code_smells, code.suggest_refactoring
// and code.apply_refactoring.
//
// Go is read by Go's own parser. All other languages are measured by general rules: what is indented, which
// words branch, which lines import. Such results say that they are estimates.
//
// A refactoring is applied as a patch, which is in the arguments of the call: what is approved is what
// runs. It changes nothing unless all of it fits the files as they are.
package code
