package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/actlog/actlog/internal/runtime/decision"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (*completionCmd) Help() string {
	return `Type this line, or put it into the shell's start-up file:

  bash:  source <(actlog completion bash)
  zsh:   source <(actlog completion zsh)
  fish:  actlog completion fish | source`
}

//go:embed completion
var completionScripts embed.FS

func (c *completionCmd) Run(e *env) error {
	script, err := completionScripts.ReadFile("completion/actlog." + c.Shell)
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(script)
	return err
}

// completeCmd is what the scripts run, with the words of a command line. The last word is the
// one being typed. The command prints one candidate per line, with its help after a tab, or
// completeFiles.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

const completeFiles = ":files"

func (c *completeCmd) Run(k *kong.Kong, e *env) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}

	for _, candidate := range complete(k.Model.Node, words) {
		if _, err := fmt.Fprintln(e.stdout, candidate); err != nil {
			return err
		}
	}
	return nil
}

// complete returns what the last word could become.
func complete(node *kong.Node, words []string) []string {
	if len(words) == 0 {
		return nil
	}

	words, typed := words[:len(words)-1], words[len(words)-1]
	var open *kong.Flag // the next word is its value
	args := 0
	for _, w := range words {
		switch {
		case w == "=": // bash makes it a word of its own
		case open != nil:
			open = nil
		case strings.HasPrefix(w, "-") && w != "-":
			name, _, hasValue := strings.Cut(w, "=")
			if f := flagNamed(node, name); f != nil && !hasValue && !f.IsBool() {
				open = f
			}
		default:
			i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == w })
			if i >= 0 {
				node = node.Children[i]
			} else {
				args++
			}
		}
	}

	var candidates []string
	name, _, hasValue := strings.Cut(typed, "=")
	switch {
	case open != nil:
		candidates = values(open.Value, "")
		if typed == "=" {
			typed = ""
		}
	case hasValue && strings.HasPrefix(name, "--"):
		if f := flagNamed(node, name); f != nil {
			candidates = values(f.Value, name+"=")
		}
	case strings.HasPrefix(typed, "-"):
		for _, f := range slices.Concat(node.AllFlags(true)...) {
			candidates = append(candidates, "--"+f.Name+"\t"+f.Help)
		}
		slices.Sort(candidates)
	case len(node.Children) > 0:
		for _, child := range node.Children {
			if !child.Hidden {
				candidates = append(candidates, child.Name+"\t"+child.Help)
			}
		}
	case len(node.Positional) > 0:
		candidates = values(node.Positional[min(args, len(node.Positional)-1)], "")
	}

	return slices.DeleteFunc(candidates, func(c string) bool { return c != completeFiles && !strings.HasPrefix(c, typed) })
}

// flagNamed returns the flag of a node or of its ancestors with this name, which includes the
// hyphens.
func flagNamed(node *kong.Node, name string) *kong.Flag {
	for _, f := range slices.Concat(node.AllFlags(false)...) {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
			return f
		}
	}
	return nil
}

// values returns the values that a flag or an argument may have, each after a prefix.
func values(v *kong.Value, prefix string) (candidates []string) {
	known := v.EnumSlice()
	switch v.Name {
	case "file", "output", "api-keys", "data-dir", "dir":
		return []string{completeFiles}
	case "state":
		known = planStates()
	case "decision":
		known = decision.All()
	}

	for _, s := range known {
		candidates = append(candidates, prefix+s)
	}
	return candidates
}
