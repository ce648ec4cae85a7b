package config

import (
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
)

// readApproval reads whether a human approves each call, and whether that may be who started the run.
func readApproval(n node, r *tool.Rule) {
	switch n.ShortTag() {
	case "!!bool":
		r.Approval = new(n.boolean())
	case "!!map":
		r.Approval = new(true)
		n.object(fields{"notStarter": func(n node) { r.NotStarter = new(n.boolean()) }}).require("notStarter")
	default:
		n.problem("want true, false or {notStarter: true}, not %s", n.kind())
	}
}

// readPolicies reads rules. One that no tool can match is a warning: the tools of a program, and
// those that a server has tomorrow, are not known here.
func readPolicies(n node, tools []string) (rules tool.Rules) {
	for _, n := range n.list() {
		var r tool.Rule
		g := n.object(fields{
			"tools": func(n node) {
				r.Tools = n.word()
				if err := tool.CheckPattern(r.Tools); err != nil && r.Tools != "" {
					n.problem("%v", err)
				} else if !slices.ContainsFunc(tools, func(known string) bool { return define.Overlap(r.Tools, known) }) {
					n.warn("no tool of this file matches it")
				}
			},
			"onUnknown":   func(n node) { r.OnUnknown = new(oneOf(n, tool.Report, tool.Retry, tool.Ask)) },
			"approval":    func(n node) { readApproval(n, &r) },
			"writes":      func(n node) { r.Writes = new(n.boolean()) },
			"exclusive":   func(n node) { r.Exclusive = new(n.boolean()) },
			"timeout":     func(n node) { r.Timeout = new(time.Duration(n.duration())) },
			"waitTimeout": func(n node) { r.WaitTimeout = new(time.Duration(n.duration())) },
			"retry":       func(n node) { r.Retry = readRetries(n) },

			"maxConcurrent": func(n node) { r.Limits.Concurrent = int(n.positive(tool.MaxLimit)) },
			"maxPerMinute":  func(n node) { r.Limits.PerMinute = int(n.positive(tool.MaxLimit)) },
		})
		g.require("tools")
		g.warnOfRuns(r.Tools)
		rules = append(rules, r)
	}
	return rules
}

// readRetries reads how often a call that failed is made again. Its mistakes are those that the policy of a program can
// have.
func readRetries(n node) *tool.Retries {
	var r tool.Retries
	n.options(fields{
		"tries":  func(n node) { r.Tries = int(n.positive(tool.MaxTries)) },
		"from":   func(n node) { r.From = time.Duration(n.duration()) },
		"factor": func(n node) { r.Factor = n.number(1, 100) },
		"most":   func(n node) { r.Most = time.Duration(n.duration()) },
		"on": func(n node) {
			r.On = each(n, func(n node) tool.FailureKind { return oneOf(n, tool.OnTool, tool.OnTimeout) })
		},
	}, func() error { return r.Check() }, "tries")
	return &r
}

// warnOfRuns warns of what a rule says that does not count for what is a run of its own, a form or a wait.
func (g given) warnOfRuns(tools string) {
	kind, _, _ := strings.Cut(tools, ".")
	if !slices.Contains([]string{"agent", "plan", "form", "wait_for"}, kind) {
		return
	}
	for _, key := range []string{"retry", "maxConcurrent", "maxPerMinute"} {
		if g.has(key) {
			g.at(key).warn("it does not count for agents, plan templates, forms and waits")
		}
	}
}
