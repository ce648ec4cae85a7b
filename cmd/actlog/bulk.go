package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// bulkFlags say which runs are asked for something, and how fast.
type bulkFlags struct {
	State     string  `help:"All runs in this state, such as FAILED." placeholder:"STATE"`
	ErrorKind string  `help:"Only runs that failed with this kind of error, such as overloaded." placeholder:"KIND"`
	Agent     string  `help:"Only runs in which this agent worked." placeholder:"NAME"`
	Executor  string  `help:"Only runs of this executor, such as agent." placeholder:"NAME"`
	Project   string  `help:"Only runs of this project." placeholder:"NAME"`
	Tag       string  `help:"Only runs with this tag." placeholder:"TAG"`
	Rate      float64 `help:"How many runs a second are asked." default:"10" placeholder:"N"`
	Yes       bool    `help:"Do not ask. Required if stdin is no terminal."`
	periodFlags
}

// filter returns the members of a filter that are set.
func (f *bulkFlags) filter() map[string]string {
	all := map[string]string{
		"state": f.State, "since": f.Since, "until": f.Until, "errorKind": f.ErrorKind, "agent": f.Agent,
		"executor": f.Executor, "project": f.Project, "tag": f.Tag,
	}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}

type bulkBody struct {
	Action string                 `json:"action"`
	Filter map[string]string      `json:"filter"`
	Limits map[string]json.Number `json:"limits,omitempty"`
	Rate   float64                `json:"rate"`
	By     string                 `json:"by,omitempty"`
	DryRun bool                   `json:"dryRun,omitempty"`
}

// bulkView is a job as the server has it.
type bulkView struct {
	BulkID                string
	State                 string
	Matches, Done, Failed int64
}

// bulk shows which runs would be asked for something, asks whether they are to be, starts a job that does it, and
// follows that to its end.
func (f *bulkFlags) bulk(ctx context.Context, e *env, client *client, body bulkBody, asJSON bool) error {
	if err := checkState(f.State); err != nil {
		return err
	}
	period := url.Values{}
	if err := f.narrow(period, time.Now()); err != nil {
		return err
	}
	for name := range period {
		body.Filter[name] = period.Get(name)
	}

	const path = "/api/v1/bulk"
	var would struct {
		Matches int64
		Items   []runView
	}

	dry := body
	dry.DryRun = true
	if err := client.post(ctx, "find runs", path, nil, dry, &would); err != nil {
		return err
	}
	if err := f.agree(ctx, e, body.Action, would.Matches, would.Items); err != nil {
		return err
	}
	if would.Matches == 0 {
		return nil
	}

	var job json.RawMessage
	if err := client.post(ctx, "start a job", path, nil, body, &job); err != nil {
		return err
	}
	return followBulk(ctx, e, client, job, asJSON)
}

// agree shows the runs that match, and asks whether they are meant.
func (f *bulkFlags) agree(ctx context.Context, e *env, action string, matches int64, some []runView) error {
	if err := runTable(some, time.Now()).write(e.stderr, widthOf(e.stderr)); err != nil {
		return err
	}
	if more := matches - int64(len(some)); more > 0 {
		fmt.Fprintf(e.stderr, "and %s more\n", words.Grouped(more))
	}
	if f.Yes || matches == 0 {
		fmt.Fprintf(e.stderr, "%s: %s\n", action, words.Plural(matches, "run"))
		return nil
	}
	return confirm(ctx, e, action, fmt.Sprintf("%s: %s?", action, words.Plural(matches, "run")))
}

// bulkEvery is how often a job is looked at that is followed.
const bulkEvery = 500 * time.Millisecond

// followBulk follows a job to its end, and prints it. If it is interrupted, the job goes on.
func followBulk(ctx context.Context, e *env, client *client, raw json.RawMessage, asJSON bool) error {
	var job bulkView
	if err := json.Unmarshal(raw, &job); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "job %s\n", words.Clean(job.BulkID))

	path := "/api/v1/bulk/" + job.BulkID
	for job.State == string(record.Running) {
		if !sleep(ctx, bulkEvery) {
			fmt.Fprintf(e.stderr, "The job goes on. Stop it: POST %s/stop\n", path)
			return context.Cause(ctx)
		}
		if err := client.get(ctx, "read the job", path, &raw); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &job); err != nil {
			return err
		}
	}

	var err error
	if asJSON {
		err = printJSON(e.stdout, raw)
	} else {
		_, err = fmt.Fprintf(e.stdout, "%s is %s: %d of %d asked, %d refused\n", words.Clean(job.BulkID),
			words.Clean(job.State), job.Done+job.Failed, job.Matches, job.Failed)
	}
	if err == nil && job.Failed > 0 {
		err = errors.New(words.Plural(job.Failed, "run") + " did not do it, such as those that went on meanwhile")
	}
	return err
}
