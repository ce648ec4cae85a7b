package clients_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a folder with a program that uses a framework as its users do.
type client struct {
	name    string
	js      bool
	command string // runs the program
}

// lock is the file that pins all that the program needs.
func (c client) lock() string {
	if c.js {
		return "package-lock.json"
	}
	return "requirements.txt"
}

// all gives the clients.
func all(t *testing.T) (clients []client) {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join("*", "main.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range mains {
		c := client{name: filepath.Dir(path), js: filepath.Ext(path) == ".js", command: "python main.py"}
		if c.js {
			c.command = "node main.js"
		}
		script, err := os.ReadFile(filepath.Join(c.name, "run.sh"))
		if err == nil {
			c.command = string(script)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	if len(clients) == 0 {
		t.Fatal("no clients")
	}
	return clients
}
