package code

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

const timeout = time.Minute

// Tools returns the tools for the code of the folder.
func (f *Folder) Tools() []tool.Tool {
	read := tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: timeout})
	tools := []tool.Tool{
		tool.Func("code.analyze_code",
			"Gives an overview of code: languages, size, the most complex functions, what smells most, and imports in rings.",
			f.analyze, read),
		tool.Func("code.analyze_complexity",
			"Measures functions: cyclomatic and cognitive complexity, nesting, parameters and lines, the most complex first.",
			f.complexity, read),
		tool.Func("code.analyze_dependencies",
			"Says which parts of the code import which others, from where else they import, and which import each other in "+
				"rings.", f.dependencies, read),
		tool.Func("code.detect_code_smells",
			"Finds functions and files that are too long, too complex, too deeply nested or have too many parameters, and "+
				"duplicated parts.", f.smells, read),
		tool.Func("code.suggest_refactoring",
			"Suggests how to improve code, with lines and reasons, and with a patch where the change can be made mechanically.",
			f.suggest, read),
	}

	if f.options.Write {
		tools = append(tools, tool.CallFunc("code.apply_refactoring", applyDescription, f.apply,
			tool.WithPolicy(tool.Policy{Approval: true, Writes: true, OnUnknown: tool.Retry}), tool.WithTouches(f.touched),
			tool.WithPreview(f.show), tool.WithVerify(f.verify)))
	}
	return tools
}

const applyDescription = "Applies a patch that changes, adds and removes files. Line numbers may be off or " +
	"missing: the lines that stay or go say where a hunk " +
	"belongs, and must be in the file as they are in the patch. It changes nothing unless all of the patch fits."

type limited struct {
	scope
	MaxResults int `json:"max_results,omitempty" jsonschema:"at most this many; 20 if it is missing"`
}

const maxResults = 100

func (l limited) most() int {
	if l.MaxResults <= 0 {
		return 20
	}
	return min(l.MaxResults, maxResults)
}

type named struct {
	Path     string `json:"path"`
	Estimate bool   `json:"estimate,omitempty"`
	function

	snippet string
}

// worst returns the functions, the most complex first, and how many there are.
func worst(files []measured, most int) ([]named, int) {
	all := []named{}
	for _, m := range files {
		for _, f := range m.Functions {
			all = append(all, named{m.Path, m.Estimate, f, m.snippet(f.LineStart, f.LineEnd)})
		}
	}
	slices.SortStableFunc(all, func(a, b named) int { return cmp.Compare(b.Complexity, a.Complexity) })
	return all[:min(most, len(all))], len(all)
}

func (f *Folder) complexity(ctx context.Context, in limited) (tool.Result, error) {
	s, err := f.survey(ctx, in.scope)
	if err != nil {
		return tool.Result{}, err
	}

	functions, all := worst(s.files, in.most())
	var text strings.Builder
	result := tool.Result{Summary: fmt.Sprintf("Measured %d functions in %d files", all, len(s.files))}
	for _, each := range functions {
		describeFunction(&text, each)
		result.Sources = append(result.Sources, tool.Source{
			URI: each.Path, Type: record.SourceFile, LineStart: each.LineStart, LineEnd: each.LineEnd, Snippet: each.snippet,
			Description: fmt.Sprintf("%s: complexity %d", each.Name, each.Complexity),
			Score:       weight(each.Complexity, maxComplexity),
		})
	}
	if all > len(functions) {
		fmt.Fprintf(&text, "... (%d more functions)\n", all-len(functions))
	}

	problems := s.problems(&text)
	s.note(&text)
	return finish(result, &text, map[string]any{
		"functions": functions, "files": len(s.files), "problems": problems, "notes": s.notes,
	})
}

func describeFunction(text *strings.Builder, each named) {
	fmt.Fprintf(text, "%s:%d-%d: %s: complexity %d, nesting %d, %d parameters, %d lines", each.Path, each.LineStart,
		each.LineEnd, each.Name, each.Complexity, each.Nesting, each.Parameters, each.lines())
	if each.Cognitive != nil {
		fmt.Fprintf(text, ", cognitive complexity %d", *each.Cognitive)
	}
	if each.Estimate {
		text.WriteString(" (estimate)")
	}
	text.WriteByte('\n')
}

func finish(result tool.Result, text *strings.Builder, data any) (tool.Result, error) {
	result.Text = text.String()
	b, err := json.Marshal(data)
	result.Data = b
	return result, err
}

func (f *Folder) dependencies(ctx context.Context, in scope) (tool.Result, error) {
	s, err := f.survey(ctx, in)
	if err != nil {
		return tool.Result{}, err
	}

	d := depend(s.files, s.modules)
	var text strings.Builder
	for _, ring := range d.Cycles {
		fmt.Fprintf(&text, "Ring: %s\n", strings.Join(ring, " <-> "))
	}
	for _, p := range d.Units {
		fmt.Fprintf(&text, "%s", p.Name)
		for _, list := range []struct {
			what  string
			names []string
		}{
			{"imports", p.Imports}, {"is imported by", p.ImportedBy}, {"standard library", p.Standard},
			{"from elsewhere", p.Others},
		} {
			if len(list.names) > 0 {
				fmt.Fprintf(&text, "; %s: %s", list.what, strings.Join(list.names, ", "))
			}
		}
		text.WriteByte('\n')
	}

	s.note(&text)
	result := tool.Result{
		Summary: fmt.Sprintf("Found %d dependencies between %d parts, %d rings", len(d.edges), len(d.Units), len(d.Cycles)),
	}

	ring := map[string]int{}
	for i, names := range d.Cycles {
		for _, name := range names {
			ring[name] = i + 1
		}
	}
	for _, e := range d.edges[:min(len(d.edges), maxResults)] {
		score := 0.5
		if ring[e.from] > 0 && ring[e.from] == ring[e.to] {
			score = 1
		}
		result.Sources = append(result.Sources, tool.Source{
			URI: e.file.Path, Type: record.SourceFile, LineStart: e.line, LineEnd: e.line,
			Snippet:     e.file.snippet(e.line, e.line),
			Description: e.from + " imports " + e.to, Score: score,
		})
	}
	return finish(result, &text, d)
}

func (f *Folder) smells(ctx context.Context, in limited) (tool.Result, error) {
	s, err := f.survey(ctx, in.scope)
	if err != nil {
		return tool.Result{}, err
	}
	return s.findings("Found %d code smells in %d files", smells(s.files), in.most(), false)
}

func (f *Folder) suggest(ctx context.Context, in limited) (tool.Result, error) {
	s, err := f.survey(ctx, in.scope)
	if err != nil {
		return tool.Result{}, err
	}

	var found []finding
	for _, m := range s.files {
		found = append(found, refactorings(m)...)
	}
	found = append(found, smells(s.files)...)
	slices.SortStableFunc(found, func(a, b finding) int { // what can be applied at once comes first
		return cmp.Compare(min(len(b.Patch), 1), min(len(a.Patch), 1))
	})
	return s.findings("Found %d refactorings in %d files", found, in.most(), true)
}

func (s survey) findings(summary string, found []finding, most int, advise bool) (tool.Result, error) {
	result := tool.Result{Summary: fmt.Sprintf(summary, len(found), len(s.files))}
	all := len(found)
	shown := append([]finding{}, found[:min(all, most)]...) // [] and never null
	var text strings.Builder
	for i := range shown {
		each := &shown[i]
		if !advise {
			each.Advice, each.Patch = "", ""
		}
		describeFinding(&text, *each)
		result.Sources = append(result.Sources, tool.Source{
			URI: each.Path, Type: record.SourceFile, LineStart: each.LineStart, LineEnd: each.LineEnd, Snippet: each.snippet,
			Description: each.What, Score: each.Score,
		})
	}

	if all > len(shown) {
		fmt.Fprintf(&text, "... (%d more)\n", all-len(shown))
	}
	if all == 0 {
		text.WriteString("Nothing was found.\n")
	}
	s.note(&text)
	return finish(result, &text, map[string]any{"findings": shown, "all": all, "notes": s.notes})
}

func describeFinding(text *strings.Builder, each finding) {
	fmt.Fprintf(text, "%s:%d-%d: %s: %s; %s.", each.Path, each.LineStart, each.LineEnd, each.Kind, each.What, each.Why)
	if each.Advice != "" {
		text.WriteString(" " + each.Advice)
	}
	if each.Estimate {
		text.WriteString(" (estimate)")
	}
	text.WriteByte('\n')

	if each.Patch != "" {
		text.WriteString("Patch:\n" + each.Patch)
	}
}

type size struct {
	Files     int `json:"files"`
	Lines     int `json:"lines"`
	CodeLines int `json:"codeLines"`
	Functions int `json:"functions"`
}

// listed is how many of each kind an overview lists.
const listed = 10

func (f *Folder) analyze(ctx context.Context, in scope) (tool.Result, error) {
	s, err := f.survey(ctx, in)
	if err != nil {
		return tool.Result{}, err
	}

	sizes := map[string]size{}
	for _, m := range s.files {
		of := sizes[m.Language]
		sizes[m.Language] = size{
			of.Files + 1, of.Lines + m.Lines, of.CodeLines + m.CodeLines, of.Functions + len(m.Functions),
		}
	}

	var text strings.Builder
	for _, language := range slices.Sorted(maps.Keys(sizes)) {
		of := sizes[language]
		fmt.Fprintf(&text, "%s: %d files, %d lines, %d of code, %d functions\n", language, of.Files, of.Lines, of.CodeLines,
			of.Functions)
	}

	functions, _ := worst(s.files, listed)
	text.WriteString("\nThe most complex functions:\n")
	for _, each := range functions {
		describeFunction(&text, each)
	}

	found, err := (survey{files: s.files}).findings("%d of %d", smells(s.files), listed, false)
	if err != nil {
		return found, err
	}
	d := depend(s.files, s.modules)
	text.WriteString("\nWhat smells most:\n" + found.Text + "\n")
	for _, ring := range d.Cycles {
		fmt.Fprintf(&text, "Ring of imports: %s\n", strings.Join(ring, " <-> "))
	}

	problems := s.problems(&text)
	s.note(&text)
	result := tool.Result{Summary: fmt.Sprintf("Analyzed %d files", len(s.files)), Sources: found.Sources}
	return finish(result, &text, map[string]any{
		"languages": sizes, "functions": functions, "smells": found.Data, "rings": d.Cycles, "problems": problems,
		"notes": s.notes,
	})
}
