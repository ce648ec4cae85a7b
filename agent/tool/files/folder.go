package files

import (
	"fmt"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// Folder is a folder with the tools for its files. Close it when no tool is called any more.
type Folder struct {
	at      *folder.Folder
	options Options
}

// Options of a Folder.
type Options struct {
	// Write adds the tools that change the folder. Their policy asks for approval.
	Write bool
	// Allow are patterns, as .gitignore has them, of files that are available although they may hold secrets or
	// are hard links. The names of all files are listed.
	Allow []string
	// Hide are absolute paths of files and folders that are not available, whatever is allowed: those of the server.
	Hide []string
}

// Open returns the folder at a path of this machine.
func Open(dir string, o Options) (*Folder, error) {
	at, err := folder.Open(dir, o.Allow...)
	if err != nil {
		return nil, err
	}
	at.Hide(o.Hide...)
	return &Folder{at: at, options: o}, nil
}

// Close gives the folder up. Its tools fail from then on.
func (f *Folder) Close() error { return f.at.Close() }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
