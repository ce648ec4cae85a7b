package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c *versionCmd) Run(e *env) error {
	if !c.JSON {
		_, err := fmt.Fprintln(e.stdout, version())
		return err
	}
	return json.NewEncoder(e.stdout).Encode(struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{serverVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
}

// version returns the version of the module, or else the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}

	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value[:min(12, len(s.Value))]
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return "actlog " + v
}

// serverVersion returns the version without the name of the program.
func serverVersion() string { return strings.TrimPrefix(version(), "actlog ") }
