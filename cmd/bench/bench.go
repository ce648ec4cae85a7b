package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/embedpg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/internal/trace/receive"
)

// bench has what all groups of figures use: a private Postgres and texts.
type bench struct {
	config
	text     *text
	postgres *embedpg.Server
	machine  machine
}

// machine describes what the absolute numbers of a run depend on.
type machine struct {
	CPUs     int    `json:"cpus"`
	OS       string `json:"os"`
	Go       string `json:"go"`
	Postgres string `json:"postgres"`
	// FsyncMS is the time to write 8 KiB to the disk and sync it.
	FsyncMS float64 `json:"fsyncMs"`
	// Stored is the ratio by which Postgres compresses the texts, each value separately, with
	// lz4 if it has that. Zstd is the ratio for 1 MiB of texts as one block.
	Stored float64 `json:"stored"`
	Zstd   float64 `json:"zstd"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d CPUs, %s, %s, Postgres %s, fsync of 8 KiB %s ms; Postgres compresses the texts %s times, "+
		"zstd 1 MiB of them %s times",
		m.CPUs, m.OS, m.Go, m.Postgres, digits(m.FsyncMS), digits(m.Stored), digits(m.Zstd))
}

func newBench(ctx context.Context, c config) (*bench, error) {
	b := &bench{config: c, text: newText(c.seed)}
	var err error
	private := embedpg.Config{Dir: filepath.Join(c.dir, "postgres"), Major: c.major}
	if b.postgres, err = embedpg.Start(ctx, private); err != nil {
		return nil, err
	}

	b.machine = machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Go: runtime.Version(), Postgres: b.postgres.Version()}
	if err := b.measureMachine(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// measureMachine measures the disk and how well the texts compress.
func (b *bench) measureMachine(ctx context.Context) (err error) {
	if b.machine.FsyncMS, err = fsyncMS(b.dir); err != nil {
		return err
	}
	if b.machine.Zstd, err = b.text.zstd(); err != nil {
		return err
	}
	b.machine.Stored, err = b.text.stored(ctx, b.postgres.URL())
	return err
}

func fsyncMS(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()

	var took []float64
	for range 50 {
		start := time.Now()
		if _, err := f.WriteAt(make([]byte, 8<<10), 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, ms(time.Since(start)))
	}
	return valueOf(took).Median, nil
}

func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return b.postgres.Close(ctx)
}

// n returns an amount of data at the scale of the run, but at least least.
func (b *bench) n(full, least int) int { return max(least, int(float64(full)*b.scale)) }

// database is a migrated database for one group of figures.
type database struct {
	url  string
	pool *pgxpool.Pool
	drop func() error
}

// database creates a migrated database without rows on the private Postgres.
func (b *bench) database(ctx context.Context, name string) (*database, error) {
	d, err := b.emptyDatabase(ctx, name)
	if err != nil {
		return nil, err
	}

	m, err := store.NewMigrator(ctx, d.url, slog.New(slog.DiscardHandler))
	if err == nil {
		err = errors.Join(m.Up(ctx), m.Close())
	}
	if err != nil {
		return nil, errors.Join(err, d.drop())
	}
	return d, nil
}

// emptyDatabase creates a database without tables.
func (b *bench) emptyDatabase(ctx context.Context, name string) (_ *database, err error) {
	name = "bench_" + name
	exec := func(ctx context.Context, sql string) error {
		admin, err := pgxpool.New(ctx, b.postgres.URL())
		if err != nil {
			return err
		}
		defer admin.Close()
		_, err = admin.Exec(ctx, sql)
		return err
	}

	u, err := url.Parse(b.postgres.URL())
	if err != nil {
		return nil, err
	}
	u.Path = "/" + name
	d := &database{url: u.String()}
	if err := exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}

	d.drop = func() error {
		if d.pool != nil {
			d.pool.Close()
		}
		return exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
	}

	if d.pool, err = pgxpool.New(ctx, d.url); err != nil {
		return nil, errors.Join(err, d.drop())
	}
	return d, nil
}

// recordTables are the four tables of the record, parents first.
var recordTables = []string{"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info"}

// empty empties the record and makes Postgres write all changes to disk, so that no side of a
// comparison pays for the work of the other.
func (d *database) empty(ctx context.Context) error {
	_, err := d.pool.Exec(ctx, `TRUNCATE actlog.plan_execution_record, actlog.agent_execution_record, actlog.think_act_record,
		actlog.act_tool_info, actlog.content, actlog.change, actlog.otlp_trace, actlog.otlp_span, actlog.search_fresh, actlog.search_text, actlog.search_slice, actlog.search_member, actlog.search_gram, actlog.recent_text, actlog.recent_slice, actlog.recent_gram CASCADE`)
	if err == nil {
		_, err = d.pool.Exec(ctx, "CHECKPOINT")
	}
	return err
}

// settle updates the statistics of Postgres, as autovacuum does after a while.
func (d *database) settle(ctx context.Context) error {
	_, err := d.pool.Exec(ctx, "VACUUM (ANALYZE)")
	if err == nil {
		_, err = d.pool.Exec(ctx, "CHECKPOINT")
	}
	return err
}

// rows counts the rows of the record.
func (d *database) rows(ctx context.Context) (n int, err error) {
	for _, t := range recordTables {
		var rows int
		if err := d.pool.QueryRow(ctx, "SELECT count(*) FROM actlog."+t).Scan(&rows); err != nil {
			return 0, err
		}
		n += rows
	}
	return n, nil
}

// store opens the store in the same way as actlog serve.
func (d *database) store(ctx context.Context) (*store.Store, error) {
	return d.storeWith(ctx, content.DefaultSizes)
}

// storeWith opens a store that cuts texts in another way.
func (d *database) storeWith(ctx context.Context, sizes content.Sizes) (s *store.Store, err error) {
	// The goroutines of the store inherit the profile label of the caller.
	onSide(ctx, sideOurs, func(ctx context.Context) {
		s, err = store.Open(ctx, store.Config{
			DatabaseURL: d.url, Project: store.Projecting(otlp.NewProjection), Contents: sizes,
		})
		if err != nil {
			return
		}

		var u *upkeep.Upkeep
		if u, err = upkeep.Start(ctx, s, upkeep.Config{TraceDays: 3}); err == nil {
			u.Close() // the partitions are there; a bench is over before the next are needed
		}
	})
	return s, err
}

// served is a store with its API, as in actlog serve.
type served struct {
	db    *database
	store *store.Store
	url   string
	close func() error
}

// served starts the API on an empty database.
func (b *bench) served(ctx context.Context, name string) (*served, error) {
	db, err := b.database(ctx, name)
	if err != nil {
		return nil, err
	}

	s, err := db.store(ctx)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	url, stop, err := listen(ctx, newAPI(s))
	if err != nil {
		return nil, errors.Join(err, closing(s.Close), db.drop())
	}

	return &served{db, s, url, func() error { return errors.Join(stop(), closing(s.Close), db.drop()) }}, nil
}

// closing calls end with a limit of one minute.
func closing(end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return end(ctx)
}

// clients is the number of goroutines that write or send requests at the same time.
const clients = 8

// newAPI returns the API and the page as in actlog serve. Its log is formatted and then discarded.
func newAPI(s *store.Store) http.Handler {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	server := httpd.New(httpd.Config{Logger: log, MaxStreams: 4 * 2_000}) // one address has all of them here
	hub := live.New(s, s.Feed(), s.Deltas(), log, 2_000)

	runs := runstore.New(s)
	looks := lookup.New(s, server, lookup.Config{})
	native := api.New(runs, looks, hub, server, api.Config{})
	page := web.New(runs, looks, hub, server, api.RowJSON, web.Runtime{})
	receiver := receive.New(s, server, 0)

	routes := slices.Concat(native.Routes(), page.Routes(), receiver.Routes(receive.DoorServer))
	return server.Handler(true, routes...)
}

// listen serves a handler on a loopback port.
func listen(ctx context.Context, h http.Handler) (url string, stop func() error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}

	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() error {
		err := closing(server.Shutdown)
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
		return err
	}, nil
}

// newClient returns an HTTP client that keeps one connection per client and does not ask for
// compression on its own.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
