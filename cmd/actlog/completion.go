package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong's: what the long help adds.
func (*completionCmd) Help() string {
	return `For this shell, and with the same line in its start-up file for all that follow:

  bash:  source <(actlog completion bash)
  zsh:   source <(actlog completion zsh)
  fish:  actlog completion fish | source`
}

//go:embed completion/actlog.bash
var bashCompletion string

//go:embed completion/actlog.zsh
var zshCompletion string

//go:embed completion/actlog.fish
var fishCompletion string

// Run implements the command.
func (c *completionCmd) Run(e *env) error {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	_, err := fmt.Fprint(e.stdout, scripts[c.Shell])
	return err
}

// completeCmd is what the scripts ask with the words of a line, the one that is
// being typed last. It prints a candidate a line, with a tab and what it is; or
// filesWelcome.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

const filesWelcome = ":files"

// Run implements the command.
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

// complete gives what the last word could become.
func complete(node *kong.Node, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	words, typed := words[:len(words)-1], words[len(words)-1]
	var open *kong.Flag // whose value comes next
	args := 0
	for _, w := range words {
		switch {
		case w == "=": // as bash cuts lines
		case open != nil:
			open = nil
		case strings.HasPrefix(w, "-") && w != "-":
			name, _, told := strings.Cut(w, "=")
			if f := flagNamed(node, name); f != nil && !told && !f.IsBool() {
				open = f
			}
		default:
			if child := childNamed(node, w); child != nil {
				node = child
			} else {
				args++
			}
		}
	}
	name, value, told := strings.Cut(typed, "=")
	switch {
	case typed == "=" && open != nil: // as bash cuts lines
		return values(open.Value, "", "")
	case open != nil:
		return values(open.Value, "", typed)
	case told && strings.HasPrefix(name, "--"):
		if f := flagNamed(node, name); f != nil {
			return values(f.Value, name+"=", value)
		}
		return nil
	case strings.HasPrefix(typed, "-"):
		return flagsOf(node, typed)
	}
	var out []string
	for _, child := range node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, typed) {
			out = append(out, child.Name+"\t"+child.Help)
		}
	}
	if len(out) == 0 && len(node.Positional) > 0 {
		return values(node.Positional[min(args, len(node.Positional)-1)], "", typed)
	}
	return out
}

func childNamed(node *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// flagNamed finds a flag by its name with the hyphens, also an ancestor's.
func flagNamed(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

func flagsOf(node *kong.Node, typed string) (out []string) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if name := "--" + f.Name; strings.HasPrefix(name, typed) {
				out = append(out, name+"\t"+f.Help)
			}
		}
	}
	slices.Sort(out)
	return out
}

// values gives the values that a flag or an argument may have.
func values(v *kong.Value, before, typed string) (out []string) {
	known := v.EnumSlice()
	switch v.Name {
	case "file", "output", "api-keys", "data-dir", "dir":
		return []string{filesWelcome}
	case "state":
		known = planStates()
	}
	for _, s := range known {
		if strings.HasPrefix(s, typed) {
			out = append(out, before+s)
		}
	}
	return out
}
