package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/internal/view/words"
)

type unknownCmd struct {
	JSON bool `help:"Print the items of the API's answer as JSON, one per line."`
	serverFlags
}

// unknownItem is what the command reads of an item of the API's answer.
type unknownItem struct {
	Reason, Explanation        string
	Count                      int64
	Scope, KindAttribute, Kind string
	Attributes                 []string
	LastSeen                   *time.Time
}

// Run lists what was sent over OTLP and is not shown: a table for each reason.
func (c *unknownCmd) Run(ctx context.Context, e *env, client *client) error {
	const what = "list what is not understood"
	var list struct {
		Since     time.Time
		Forgotten int64
		Items     []json.RawMessage
	}

	if err := client.get(ctx, what, otlp.RowlessPath, &list); err != nil {
		return err
	}

	if c.JSON {
		return encodeAll(json.NewEncoder(e.stdout), list.Items)
	}

	items, err := decodeAll[unknownItem](what, list.Items)
	if err != nil {
		return err
	}

	since := list.Since.Local().Format(time.DateTime)
	if len(items) == 0 {
		fmt.Fprintf(e.stderr, "actlog: all spans that arrived since %s are shown, if any arrived\n", since)
		return nil
	}

	fmt.Fprintf(e.stdout, "What arrived over OTLP since %s and is not shown:\n", since)
	for len(items) > 0 {
		n := slices.IndexFunc(items, func(i unknownItem) bool { return i.Reason != items[0].Reason })
		if n < 0 {
			n = len(items)
		}
		fmt.Fprintf(e.stdout, "\n%s: %s\n", words.Clean(items[0].Reason), words.Clean(items[0].Explanation))
		if err := printTable(e.stdout, "COUNT\tLAST SEEN\tSCOPE\tKIND\tATTRIBUTES", items[:n], unknownItem.row); err != nil {
			return err
		}
		items = items[n:]
	}

	if list.Forgotten > 0 {
		fmt.Fprintf(e.stderr, "actlog: %s are not listed any more, because there were too many\n",
			words.Plural(list.Forgotten, "kind"))
	}
	return nil
}

func (i unknownItem) row() string {
	kind, last := words.Clean(i.Kind), "-"
	if i.KindAttribute != "" {
		kind = words.Clean(i.KindAttribute) + "=" + kind
	}
	if i.LastSeen != nil {
		last = i.LastSeen.Local().Format(time.DateTime)
	}

	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", i.Count, last, cmp.Or(words.Clean(i.Scope), "-"), cmp.Or(kind, "-"),
		cmp.Or(words.Clean(strings.Join(i.Attributes, " ")), "-"))
}
