package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// load has the write requests of each client.
type load [clients][]request

type request struct {
	body    []byte
	records int
}

// loadOf makes the load for a number of runs, with so many records per request. Encoding is not measured, because
// clients usually run on other machines.
func (b *bench) loadOf(
	ctx context.Context, runs, records int, changes func(ctx context.Context, from, to int) ([]record.Change, error),
) (l load, err error) {
	batches, err := b.batches(ctx, runs, records, changes)
	if err != nil {
		return l, err
	}

	for i := range batches {
		for _, batch := range batches[i] {
			var body bytes.Buffer
			for _, c := range batch {
				line, err := wire.Encode(c)
				if err != nil {
					return l, err
				}
				body.Write(line)
				body.WriteByte('\n')
			}
			l[i] = append(l[i], request{body.Bytes(), len(batch)})
		}
	}
	return l, nil
}

// size counts the records of all requests, and the bytes of their bodies.
func (l *load) size() (records, bytes int) {
	for _, requests := range l {
		for _, r := range requests {
			records, bytes = records+r.records, bytes+len(r.body)
		}
	}
	return records, bytes
}

// send sends the requests of client i, one after the other.
func (l *load) send(ctx context.Context, client *http.Client, server string, i int) error {
	for _, q := range l[i] {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/api/v1/records", bytes.NewReader(q.body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/x-ndjson")

		answer, err := ask(client, r)
		if err != nil {
			return err
		}

		var result wire.Answer
		if err := json.Unmarshal(answer, &result); err != nil {
			return err
		}
		if result.Accepted != q.records {
			return fmt.Errorf("%d of %d records were accepted: %.300s", result.Accepted, q.records, answer)
		}
	}
	return nil
}

// ask returns the body of an answer. Any status but 200 is an error.
func ask(client *http.Client, r *http.Request) ([]byte, error) {
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	var b bytes.Buffer // sized by Content-Length: the client shares the CPUs with the server
	b.Grow(int(max(response.ContentLength, 0)) + bytes.MinRead)
	_, err = b.ReadFrom(response.Body)
	body := b.Bytes()
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.300s", r.Method, r.URL.Path, response.Status, body)
	}
	return body, err
}

// sideBySide makes the changes of runs of which so many are in progress at the same time.
func (t *text) sideBySide(together int) func(ctx context.Context, from, to int) ([]record.Change, error) {
	return func(ctx context.Context, from, to int) ([]record.Change, error) {
		return t.changes(ctx, from, to, together)
	}
}

// measureHTTP posts runs from 8 clients, 500 records per request, until all requests are answered.
// An answer comes after the commit.
func measureHTTP(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "http")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	db, server := srv.db, srv.url
	client := newClient()
	defer client.CloseIdleConnections()

	runs := b.n(clients*runsOfClient, clients)
	for _, v := range []struct {
		name    string
		changes func(ctx context.Context, from, to int) ([]record.Change, error)
	}{
		{"run after run", b.text.sideBySide(1)},
		{"whole rows", b.text.whole},
	} {
		f, err := b.againstCopy(ctx, db, "over HTTP, "+v.name, runs*rowsOfRun, clients,
			func(ctx context.Context) (writer, error) {
				l, err := b.loadOf(ctx, runs, batchRecords, v.changes)
				return func(ctx context.Context, i int) error { return l.send(ctx, client, server, i) }, err
			}, atLeast(0.35))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}
