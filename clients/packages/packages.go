// Package packages installs what programs in other languages need, at the versions of their lock files, into the folder
// of the program.
package packages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Tools is the folder clients/tools: the lock files of the programs that install packages.
type Tools string

// installing is held while tools are installed, which several programs need at the same time.
var installing sync.Mutex

// Python installs the packages of requirements.txt in a folder. It returns the folder with the programs.
func (t Tools) Python(dir string) (bin string, err error) {
	uv, err := t.UV()
	if err != nil {
		return "", err
	}
	if bin, err = filepath.Abs(filepath.Join(dir, ".venv", "bin")); err != nil {
		return "", err
	}
	return bin, fetch(dir, ".venv", "requirements.txt",
		[]string{uv, "venv", "--quiet", "--clear", "--python", filepath.Join(filepath.Dir(uv), "python"), ".venv"},
		[]string{uv, "pip", "sync", "--quiet", "--python", ".venv/bin/python", "--require-hashes", "requirements.txt"})
}

// JavaScript installs the packages of package-lock.json in a folder. It returns the folder with Node.js.
func (t Tools) JavaScript(dir string) (bin string, err error) {
	node, err := t.Node()
	if err != nil {
		return "", err
	}
	npm := filepath.Join(node, "..", "..", "..", "npm", "bin", "npm-cli.js")
	return filepath.Dir(node), fetch(dir, "node_modules", "package-lock.json", npmCI(node, npm))
}

// Node downloads Node.js and its npm. Those of Debian are too old and silently skip packages.
func (t Tools) Node() (string, error) {
	installing.Lock()
	defer installing.Unlock()

	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	node, err := filepath.Abs(filepath.Join(string(t), "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node"))
	if err != nil {
		return "", err
	}
	return node, fetch(string(t), "node_modules", "package-lock.json", npmCI("npm"))
}

func npmCI(npm ...string) []string {
	return append(npm, "ci", "--loglevel=error", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
}

// UV downloads uv, which needs a second where pip needs half a minute.
func (t Tools) UV() (string, error) {
	installing.Lock()
	defer installing.Unlock()

	uv, err := filepath.Abs(filepath.Join(string(t), ".venv", "bin", "uv"))
	if err != nil {
		return "", err
	}
	return uv, fetch(string(t), ".venv", "requirements.txt", []string{"python3", "-m", "venv", "--clear", ".venv"},
		[]string{
			".venv/bin/python", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", "requirements.txt",
		})
}

// fetch runs commands in dir that download the packages of a lock file into the folder into. It
// does nothing if they were already downloaded for the same lock file.
func fetch(dir, into, lock string, commands ...[]string) error {
	want, err := os.ReadFile(filepath.Join(dir, lock))
	if err != nil {
		return err
	}

	fetched := filepath.Join(dir, into, "fetched.lock")
	if old, err := os.ReadFile(fetched); err == nil && bytes.Equal(old, want) {
		return nil
	}

	for _, args := range commands {
		cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s in %s: %w\n%s", cmd, dir, err, out)
		}
	}
	return os.WriteFile(fetched, want, 0o600)
}
