package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// measureMemory runs actlog serve and measures its memory, without its Postgres: idle, and the peak
// while 8 clients write.
func measureMemory(ctx context.Context, b *bench) (_ []figure, err error) {
	if runtime.GOOS != "linux" {
		return []figure{alone("actlog serve", "MiB", nil, nil).noted("not measured: only Linux tells it")}, nil
	}

	binary := b.actlog
	if binary == "" {
		binary = filepath.Join(b.dir, "actlog")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/actlog/actlog/cmd/actlog")
		if output, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build actlog: %w\n%s", err, output)
		}
	}

	l, err := b.loadOf(ctx, b.n(clients*runsOfClient, clients), batchRecords, b.text.sideBySide(1))
	if err != nil {
		return nil, err
	}
	p, err := b.serve(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()

	if err := wait(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	idle, err := p.memory("VmRSS")
	if err != nil {
		return nil, err
	}

	client := newClient()
	defer client.CloseIdleConnections()
	if err := concurrently(clients, func(i int) error { return l.send(ctx, client, p.url, i) }); err != nil {
		return nil, err
	}
	most, err := p.memory("VmHWM")
	if err != nil {
		return nil, err
	}

	return []figure{
		alone("actlog serve, idle", "MiB", []float64{idle}, atMost(60)),
		alone("actlog serve, at most under load", "MiB", []float64{most}, atMost(300)),
	}, nil
}

// serving is a running actlog serve.
type serving struct {
	cmd  *exec.Cmd
	url  string
	over chan error
}

// serve starts it with a Postgres of its own and waits until it is ready.
func (b *bench) serve(ctx context.Context, binary string) (_ *serving, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, "serve", "--listen", address, "--otlp-listen", "off",
		"--data-dir", filepath.Join(b.dir, "serve"))
	log, err := os.Create(filepath.Join(b.dir, "serve.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "ACTLOG_DATABASE_URL=")
	if err := cmd.Start(); err != nil {
		return nil, err
	}

	p := &serving{cmd: cmd, url: "http://" + address, over: make(chan error, 1)}
	go func() { p.over <- cmd.Wait() }()
	ready := func() bool {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", nil)
		if err == nil {
			_, err = ask(http.DefaultClient, r)
		}
		return err == nil
	}
	for until := time.Now().Add(time.Minute); !ready(); {
		select {
		case err := <-p.over:
			output, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("actlog serve exited: %w\n%s", err, output)
		default:
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil || time.Now().After(until) {
			return nil, errors.Join(errors.New("actlog serve did not become ready"), err, p.stop())
		}
	}

	http.DefaultClient.CloseIdleConnections()
	return p, nil
}

func (p *serving) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}

	select {
	case err := <-p.over:
		return err
	case <-time.After(time.Minute):
		return errors.Join(errors.New("actlog serve did not exit"), p.cmd.Process.Kill())
	}
}

// memory returns a value from the memory statistics of the process, in MiB.
func (p *serving) memory(name string) (mib float64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()

	for s := bufio.NewScanner(f); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), name+":"); ok {
			var kib float64
			_, err := fmt.Sscan(value, &kib)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", f.Name(), name)
}
