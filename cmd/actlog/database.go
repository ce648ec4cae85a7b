package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/embedpg"
)

// databaseFlags name the database of the record.
type databaseFlags struct {
	DatabaseURL string `help:"Postgres that keeps the record, postgres://user:password@host/database. Default: a private one in the data folder. Better pass a password in ACTLOG_DATABASE_URL: other users can see command lines." placeholder:"URL"`
	DataDir     string `help:"Folder of the private Postgres." default:".actlog" type:"path"`
}

// poolerFlags are for a database behind a pooler.
type poolerFlags struct {
	DirectURL string `help:"The same database without a pooler of transactions, if --database-url leads to one: what listens or holds a lock connects there. Better pass a password in ACTLOG_DIRECT_URL." name:"direct-url" placeholder:"URL"`
}

// noRecord says what to do about a database without a record.
const noRecord = "this database holds no record: it has no tables of Actlog (--database-url or --data-dir names " +
	"another one; actlog serve, or actlog migrate up, makes a record)"

// use calls do with the URL of the configured or of the private database, and then closes it.
// It makes no private one: if there is none, it returns an error.
func (f databaseFlags) use(ctx context.Context, e *env, do func(url string) error) error {
	if f.DatabaseURL == "" {
		switch made, err := embedpg.Made(f.folder()); {
		case err != nil:
			return err
		case !made:
			return fmt.Errorf("there is no record in the folder %s: name its folder with --data-dir, or its database with "+
				"--database-url (actlog serve makes a record)", f.DataDir)
		}
	}
	return f.useOrMake(ctx, e, do)
}

// useOrMake is use, but makes the private database if there is none.
func (f databaseFlags) useOrMake(ctx context.Context, e *env, do func(url string) error) error {
	url, closeDatabase, err := f.open(ctx, e)
	if err != nil {
		return err
	}
	return errors.Join(do(url), closeDatabase())
}

// open returns the URL of the configured database, or of the private one. It starts the private
// one if no server runs it.
func (f databaseFlags) open(ctx context.Context, e *env) (url string, closeDatabase func() error, err error) {
	nothing := func() error { return nil }
	if f.DatabaseURL != "" {
		return f.DatabaseURL, nothing, nil
	}

	postgres, err := embedpg.Start(ctx, embedpg.Config{Dir: f.folder(), Logger: e.log})
	switch {
	case errors.Is(err, embedpg.ErrInUse): // a server runs it
		url, err = embedpg.RunningURL(f.folder())
		return url, nothing, err
	case err != nil:
		return "", nil, f.withFolder(err)
	}
	return postgres.URL(), func() error { return postgres.Close(context.WithoutCancel(ctx)) }, nil
}

// withFolder says how to name another data folder, if an error is about a file or a folder.
func (f databaseFlags) withFolder(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		return err
	}
	return fmt.Errorf("%w (the data folder is %s; --data-dir names another, where you may write, and --database-url a "+
		"database of your own)", err, terminal.Line(f.DataDir))
}

func (f databaseFlags) folder() string { return filepath.Join(f.DataDir, "postgres") }
