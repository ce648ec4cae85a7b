package docker

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/command"
)

type logArguments struct {
	Container string `json:"container" jsonschema:"its name, as docker.list_containers has it"`
	Tail      int    `json:"tail,omitempty" jsonschema:"how many lines from the end; 100 by default, at most 2000"`
	Since     string `json:"since,omitempty" jsonschema:"a time (2026-01-31T12:00:00Z), or how long ago (10m)"`
}

const (
	defaultTail = 100
	maxTail     = 2000
)

// query returns the arguments as the daemon takes them.
func (in logArguments) query() (url.Values, error) {
	q := url.Values{"stdout": {"true"}, "stderr": {"true"}, "timestamps": {"true"}}
	in.Tail = cmp.Or(in.Tail, defaultTail)
	if in.Tail < 1 || in.Tail > maxTail {
		return nil, fmt.Errorf("tail: want 1 to %d", maxTail)
	}
	q.Set("tail", strconv.Itoa(in.Tail))
	if in.Since == "" {
		return q, nil
	}

	at, err := time.Parse(time.RFC3339, in.Since)
	if err != nil {
		ago, err := time.ParseDuration(in.Since)
		if err != nil || ago <= 0 {
			return nil, fmt.Errorf("since: want a time such as 2026-01-31T12:00:00Z, or how long ago, such as 10m")
		}
		at = time.Now().Add(-ago)
	}
	q.Set("since", strconv.FormatInt(at.Unix(), 10))
	return q, nil
}

func (d *daemon) logs(ctx context.Context, in logArguments) (tool.Result, error) {
	q, err := in.query()
	if err != nil {
		return tool.Result{}, err
	}
	c, err := d.find(ctx, in.Container)
	if err != nil {
		return tool.Result{}, err
	}

	found, _, err := d.inspect(ctx, c)
	if err != nil {
		return tool.Result{}, err
	}
	body, err := d.do(ctx, http.MethodGet, "/containers/"+c.ID+"/logs", q)
	if err != nil {
		return tool.Result{}, err
	}
	defer body.Close()

	var out command.Output
	read := readFrames
	if found.Config.Tty {
		read = readPlain
	}
	note := read(io.LimitReader(body, maxLogs), &out)
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}

	text := cleanLines(out.String())
	if text == "" {
		text = "(There is nothing.)"
	}
	if note != "" {
		text += "\n(" + note + ")"
	}
	return tool.Result{Text: text, Summary: "Read the log of " + in.Container}, nil
}

// readPlain reads the log of a container with a terminal.
func readPlain(r io.Reader, out io.Writer) (note string) {
	if _, err := io.Copy(out, r); err != nil {
		return "the rest of the log could not be read"
	}
	return ""
}

// readFrames reads a log in frames: eight bytes, of which the last four are the length of what follows.
func readFrames(r io.Reader, out io.Writer) (note string) {
	const broken = "the log is cut or broken here"
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return ""
		} else if err != nil {
			return broken
		}

		if head[0] > 2 || head[1] != 0 || head[2] != 0 || head[3] != 0 {
			return broken
		}
		if _, err := io.CopyN(out, r, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			return broken
		}
	}
}
