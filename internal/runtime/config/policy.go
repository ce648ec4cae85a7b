package config

import (
	"slices"
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
		n.object(fields{
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
		}).require("tools")
		rules = append(rules, r)
	}
	return rules
}
