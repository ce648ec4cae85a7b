package code

import (
	"path"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool/code/internal/treesitter"
)

// maxParsing bounds the time to parse one file.
const maxParsing = 5 * time.Second

// grammar is how the files of a language are parsed, and what the nodes of its trees are.
type grammar struct {
	of treesitter.Language
	*rules
}

// grammars are the languages with a grammar, by the ends of file names. The one of TSX takes JavaScript, too.
var grammars = map[string]grammar{
	".py": {treesitter.Python, &pythonRules}, ".pyi": {treesitter.Python, &pythonRules},
	".ts": {treesitter.TypeScript, &scriptRules}, ".mts": {treesitter.TypeScript, &scriptRules},
	".cts": {treesitter.TypeScript, &scriptRules},
	".tsx": {treesitter.TSX, &scriptRules}, ".js": {treesitter.TSX, &scriptRules}, ".jsx": {treesitter.TSX, &scriptRules},
	".mjs": {treesitter.TSX, &scriptRules}, ".cjs": {treesitter.TSX, &scriptRules},
	".java": {treesitter.Java, &javaRules},
}

func grammarOf(at string) (grammar, bool) {
	g, ok := grammars[strings.ToLower(path.Ext(at))]
	return g, ok
}
