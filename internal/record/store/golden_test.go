package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/store"
)

// TestStatementsAsFiles keeps the statements at the heart of the record, which are made at run time, as files that
// anybody can read: testdata/sql. `go test -run TestStatementsAsFiles ./internal/record/store -update` writes them.
func TestStatementsAsFiles(t *testing.T) {
	t.Parallel()
	statements := store.HeartStatements()
	const folder = "testdata/sql"

	for name, sql := range statements {
		path := filepath.Join(folder, name+".sql")
		sql = strings.TrimSpace(sql) + "\n"
		if *update {
			if err := os.WriteFile(path, []byte(sql), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		switch onFile, err := os.ReadFile(path); {
		case err != nil:
			t.Errorf("statement %s: %v", name, err)
		case string(onFile) != sql:
			t.Errorf("%s is not the statement that runs; -update writes it", path)
		}
	}
	if files, err := filepath.Glob(folder + "/*"); err != nil || len(files) != len(statements) {
		t.Errorf("%s has %d files, want %d: %v", folder, len(files), len(statements), err)
	}
}
