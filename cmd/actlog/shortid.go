package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/internal/view/words"
)

const (
	// leastShortID is the length of the shortest shortened id, in bytes. The ids that the runtime makes, such as
	// plan-0192f3b4-7c..., have the time in these bytes, to a quarter of a second: few others begin with the same ones.
	leastShortID = 16
	// mostWholeID is the length up to which an id is shown whole: cutting it would save little.
	mostWholeID = 20
)

// shortIDs returns how a list shows each of its ids: a long one is cut to a beginning that no other id of the list has.
func shortIDs(ids []string) map[string]string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	short := make(map[string]string, len(sorted))
	for i, id := range sorted {
		n := leastShortID
		for _, neighbour := range []int{i - 1, i + 1} { // of sorted ids, the neighbours have the longest beginning in common
			if neighbour >= 0 && neighbour < len(sorted) {
				n = max(n, common(id, sorted[neighbour])+1)
			}
		}

		short[id] = id
		if len(id) > mostWholeID && n < len(id) && isPlainID(id) {
			short[id] = id[:n]
		}
	}
	return short
}

// common returns how many bytes at the beginning of two texts are the same.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// isPlainID reports whether each byte of an id is a character that a terminal shows: then it can be cut anywhere.
func isPlainID(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// whole replaces shortened ids of plans by the ids, see [client.wholeFrom].
func (c *client) whole(ctx context.Context, ids ...*string) error {
	for _, id := range ids {
		if err := c.wholeFrom(ctx, 0, id); err != nil {
			return err
		}
	}
	return nil
}

// wholeFrom replaces the shortened id of a plan by the id. If several plans have ids that begin so, the error names
// them. An id that no plan has stays as it is: whatever is asked of it says so. A shortened id has at least so many
// bytes. A command that changes something takes none below [leastShortID]: if run-1 is gone, only run-12 may begin so.
func (c *client) wholeFrom(ctx context.Context, least int, id *string) error {
	if *id == "" {
		return nil
	}

	var found struct {
		PlanIDs []string
		More    bool
	}
	err := c.get(ctx, named("plan", *id), withQuery("/api/v1/ids", url.Values{"prefix": {*id}}), &found)

	switch {
	case ctx.Err() != nil:
		return err
	case err != nil || len(found.PlanIDs) == 0 || found.PlanIDs[0] == *id:
		return nil //nolint:nilerr // what comes next says what is wrong, if anything is
	case len(found.PlanIDs) > 1:
		return ambiguous("plan", *id, found.PlanIDs, found.More)
	case len(*id) < least:
		return usageError(fmt.Sprintf("%s is not on record; if you mean %s, name it whole", named("plan", *id),
			joined(found.PlanIDs)))
	}

	*id = found.PlanIDs[0]
	return nil
}

// wholeStep returns the id of the step of a tree that a shortened one stands for; empty: none does.
func (c *client) wholeStep(ctx context.Context, root, short string) (string, error) {
	p, err := c.plan(ctx, root, url.Values{"root": {root}, "maxDepth": {strconv.Itoa(maxShownDepth)}})
	if err != nil {
		return "", err
	}
	return pick("step", short, p.stepIDs())
}

func (p *planView) stepIDs() (ids []string) {
	for _, of := range p.allPlans(nil) {
		for _, st := range of.AgentExecutionSequence {
			ids = append(ids, st.StepID)
		}
	}
	return ids
}

// ambiguous says that a shortened id may stand for several ids.
func ambiguous(kind, short string, ids []string, more bool) error {
	others := ""
	if more {
		others = ", ..."
	}
	return usageError(fmt.Sprintf("%s is ambiguous: it may be %s%s", named(kind, short), joined(ids), others))
}

// pick returns the id that a shortened one stands for, among all that there are; empty: none does.
func pick(kind, short string, all []string) (string, error) {
	if slices.Contains(all, short) {
		return short, nil
	}

	var found []string
	for _, id := range all {
		if short != "" && strings.HasPrefix(id, short) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}

	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	const most = 10
	return "", ambiguous(kind, words.Clean(short), found[:min(len(found), most)], len(found) > most)
}
