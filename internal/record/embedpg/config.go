// Package embedpg runs a private Postgres for a program that has no database configured. Systems that are not like Unix
// have none.
package embedpg

import (
	"errors"
	"log/slog"
)

var (
	// ErrNoPostgres means that no suitable server binaries are installed and that none could
	// be downloaded. The error that wraps it lists what the user can do.
	ErrNoPostgres = errors.New("no PostgreSQL server binaries")

	// ErrInUse means that another running program has locked the folder.
	ErrInUse = errors.New("in use by another program")
)

// Config says where the private Postgres is and how to start it.
type Config struct {
	// Dir holds the data directory, the password file, the log and the lock. It is created
	// with mode 0700 if missing. Data in it is never removed. Required.
	Dir string

	// Major is the major version of Postgres for new data. What is in Dir is opened by the version that created it.
	// Default: the newest that is installed.
	Major int

	// Logger receives starts, restarts and stops. Default: discard.
	Logger *slog.Logger

	// Fast trades durability for speed: no fsync, no checksums, no password on the socket.
	// For tests only.
	Fast bool

	// Ballast is the size of a file in Dir that is removed if the disk is too full for Postgres to
	// start, in bytes. It is made, and made again, when there is plenty of room. 0: none is made, and
	// one that is there stays. [NoBallast]: one that is there is removed.
	Ballast int64

	// BinDirs are folders, or glob patterns of folders, to search for initdb and postgres.
	// Default: PATH, then the usual folders of Debian, RHEL and Homebrew.
	BinDirs []string

	// CacheDir keeps downloaded server binaries, one folder per version.
	// Default: actlog/postgres in the user's cache folder.
	CacheDir string

	// Offline forbids the download of server binaries.
	Offline bool

	// Guarded ends a temporary server, and removes its folder, as soon as this process has ended, however that was.
	Guarded bool

	// For the tests of this package.
	repository string // URL to download from
	pins       []pin  // of what can be downloaded
	noSocket   bool
}

// NoBallast as [Config.Ballast] means that there is none.
const NoBallast = -1
