package docker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

type action struct {
	name string // of the request: start, stop or restart
	past string
	// wanted is the state after it; empty: nothing shows that it happened.
	wanted string
}

var (
	start   = action{"start", "started", "running"}
	stop    = action{"stop", "stopped", "exited"}
	restart = action{"restart", "restarted", ""}
)

// grace is how long a container has to end before the daemon kills it.
const grace = 10 * time.Second

func (d *daemon) tool(a action, description string) tool.Tool {
	// A call that nobody knows the end of is not made again by itself: somebody may have undone it for a reason.
	policy := tool.Policy{Approval: true, Writes: true, Timeout: d.Timeout + grace}

	return tool.CallFunc("docker."+a.name, description,
		func(ctx context.Context, call tool.Call, in named) (tool.Result, error) {
			return d.act(ctx, a, call, in)
		},
		tool.WithPolicy(policy),
		tool.WithTouches(func(_ context.Context, in named) ([]string, error) { return []string{in.Container}, nil }),
		tool.WithPreview(func(ctx context.Context, _ tool.Call, in named) (tool.Preview, error) {
			p, _, err := d.preview(ctx, a, in)
			return p, err
		}),
		tool.WithVerify(func(ctx context.Context, _ tool.Call, in named) (tool.Result, bool, error) {
			return d.verify(ctx, a, in)
		}))
}

// preview shows what would be done to which container. The id is part of it: another container could have the name by
// then.
func (d *daemon) preview(ctx context.Context, a action, in named) (tool.Preview, summary, error) {
	c, err := d.find(ctx, in.Container)
	if err != nil {
		return tool.Preview{}, c, err
	}
	if c.State == a.wanted {
		return tool.Preview{}, c, fmt.Errorf("%s is %s already; there is nothing to do", in.Container, c.State)
	}

	text := fmt.Sprintf("docker %s %s\nimage: %s\nid: %s\nstate now: %s\n",
		a.name, in.Container, clean(c.Image), c.ID[:12], clean(c.State))
	return tool.NewPreview(tool.PreviewCommand, text, c.ID), c, nil
}

func (d *daemon) act(ctx context.Context, a action, call tool.Call, in named) (tool.Result, error) {
	now, c, err := d.preview(ctx, a, in)
	if err == nil {
		err = call.CheckApproved(now)
	}
	if err != nil {
		return tool.Result{}, err
	}

	query := url.Values{}
	if a.name != start.name {
		query.Set("t", strconv.Itoa(int(grace.Seconds())))
	}
	body, err := d.do(ctx, http.MethodPost, "/containers/"+c.ID+"/"+a.name, query)
	if err != nil {
		return tool.Result{}, err
	}
	_ = body.Close() // it is empty
	return done(a, in.Container), nil
}

func done(a action, container string) tool.Result {
	text := fmt.Sprintf("%s is %s.", container, a.past)
	return tool.Result{Text: text, Summary: text}
}

// verify says whether a container is as an action leaves it.
func (d *daemon) verify(ctx context.Context, a action, in named) (tool.Result, bool, error) {
	if a.wanted == "" {
		return tool.Result{}, false, nil
	}
	c, err := d.find(ctx, in.Container)
	if err != nil || c.State != a.wanted {
		return tool.Result{}, false, err
	}
	return done(a, in.Container), true, nil
}
