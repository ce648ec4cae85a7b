package git

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// writer is a tool that changes the repository, or another one.
type writer[In any] struct {
	name, description string
	// plan works out what a call would do. It changes nothing.
	plan func(ctx context.Context, o *opened, call tool.Call, in In) (plan, error)
	// done finds out whether a call took effect that had begun. It changes nothing.
	done func(ctx context.Context, o *opened, call tool.Call, in In) (tool.Result, bool, error)
	// touches returns what a call would change, for people.
	touches func(ctx context.Context, o *opened, in In) ([]string, error)
	timeout time.Duration
	// byID says that done finds a call by its id, and nothing else: then a call with an id is made once.
	byID bool
}

type plan struct {
	preview tool.Preview
	do      func(ctx context.Context) (tool.Result, error)
}

// tool returns the tool for a repository.
//
// A call that nobody knows the end of is made again, because it is found if it took effect, and another effect needs
// another approval.
func (w writer[In]) tool(r *repository) tool.Tool {
	policy := tool.Policy{Approval: true, Writes: true, OnUnknown: tool.Retry, Timeout: w.timeout}
	return tool.CallFunc(w.name, w.description, func(ctx context.Context, call tool.Call, in In) (tool.Result, error) {
		return w.call(ctx, r, call, in)
	}, tool.WithPolicy(policy), tool.WithTouches(func(ctx context.Context, in In) (touched []string, err error) {
		err = r.within(ctx, func(o *opened) error {
			touched, err = w.touches(ctx, o, in)
			return err
		})
		return touched, err
	}), tool.WithPreview(func(ctx context.Context, call tool.Call, in In) (preview tool.Preview, err error) {
		err = r.within(ctx, func(o *opened) error {
			p, err := w.plan(ctx, o, call, in)
			preview = p.preview
			return err
		})
		return preview, err
	}), tool.WithVerify(func(ctx context.Context, call tool.Call, in In) (result tool.Result, done bool, err error) {
		err = r.within(ctx, func(o *opened) error {
			result, done, err = w.done(ctx, o, call, in)
			return err
		})
		return result, done, err
	}))
}

func (w writer[In]) call(ctx context.Context, r *repository, call tool.Call, in In) (result tool.Result, err error) {
	r.writing.Lock()
	defer r.writing.Unlock()

	err = r.within(ctx, func(o *opened) error {
		if w.byID && call.ID != "" {
			before, made, err := w.done(ctx, o, call, in)
			if made || err != nil {
				result = before
				return err
			}
		}

		p, err := w.plan(ctx, o, call, in)
		if err != nil {
			return err
		}
		if err := call.CheckApproved(p.preview); err != nil {
			return err
		}
		result, err = p.do(ctx)
		return err
	})
	return result, err
}

// reader returns a tool that changes nothing.
func reader[In any](
	r *repository, name, description string, read func(o *opened, ctx context.Context, in In) (tool.Result, error),
) tool.Tool {
	return tool.Func(name, description, func(ctx context.Context, in In) (result tool.Result, err error) {
		err = r.within(ctx, func(o *opened) error {
			result, err = read(o, ctx, in)
			return err
		})
		return result, err
	}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: timeout}))
}

// sentence returns a result that is one sentence. The format has no full stop, as the summary has none.
func sentence(format string, args ...any) tool.Result {
	text := fmt.Sprintf(format, args...)
	return tool.Result{Text: text + ".", Summary: text}
}

// within opens the repository for the time of a function.
func (r *repository) within(ctx context.Context, do func(o *opened) error) error {
	o, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	return do(o)
}
