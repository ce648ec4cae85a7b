package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// bigTree writes a tree of some MiB of texts that do not compress well.
func (c *client) bigTree(root string, mib int) {
	c.T.Helper()
	c.Write(step(root, root, root+"-0"))
	c.Exec(`INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, result)
		SELECT x.root_plan_id, x.root_plan_id || '-' || n, x.plan_id, x.part, (SELECT string_agg(md5(n || ' ' || i), '') FROM generate_series(1, 1024) AS i)
		FROM actlog.agent_execution_record AS x, generate_series(1, $2::integer) AS n WHERE x.root_plan_id = $1`, root, mib*32)
}

// bigStep writes a step of some MiB of texts.
func (c *client) bigStep(root string, mib int) {
	c.T.Helper()
	c.Write(tool(root, root+"-s", 0, root+"-0", obj{"name": "first"}))
	c.Exec(`INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part, think_input)
		SELECT x.root_plan_id, x.step_id, n, x.part, repeat('0123456789abcdef', 16384)
		FROM actlog.think_act_record AS x, generate_series(1, $2::integer) AS n WHERE x.root_plan_id = $1`, root, mib*4)
	c.Exec(`INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, call_index)
		SELECT x.root_plan_id, x.step_id, n, root_plan_id || n || '-' || i, x.part, 5 - i
		FROM actlog.think_act_record AS x, generate_series(1, $2::integer) AS n, generate_series(1, 2) AS i WHERE x.root_plan_id = $1 AND x.seq = 0`, root, mib*4)
}

// unread sends a request over a connection that takes little, and does not read the answer.
func (c *client) unread(path, key string) net.Conn {
	c.T.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
	}}

	conn, err := dialer.DialContext(c.T.Context(), "tcp", strings.TrimPrefix(c.Base, "http://"))
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n\r\n", path, key)
	return conn
}

// manyConns gives a store as many connections as a server has.
func manyConns(c *store.Config) { c.MaxConns = 20 }

// heap is how much memory is live.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// refusedAnswers is how many requests were refused for want of memory or of a turn.
func (c *client) refusedAnswers() (n float64) {
	c.T.Helper()
	for line := range strings.Lines(string(c.Get("/metrics").Body)) {
		if strings.HasPrefix(line, "actlog_http_answer_refused_total{") ||
			strings.HasPrefix(line, "actlog_http_turns_refused_total{") {
			var one float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &one); err != nil {
				c.T.Fatal(err)
			}
			n += one
		}
	}
	return n
}

// TestAnswersInMemoryAreBounded: N14: 24 clients ask for a tree of 12 MiB and do not read it.
// Some are refused, what the others hold stays within the budget, a good client reads and
// writes meanwhile, and when they are gone nothing is held.
func TestAnswersInMemoryAreBounded(t *testing.T) { // alone: other tests grow the heap, too
	const budget = 64 << 20
	bad, badLine := apitest.NewKey(t, "bad", httpd.ScopeRead)
	good, goodLine := apitest.NewKey(t, "good", httpd.ScopeRead, httpd.ScopeWrite)
	c := serveWith(t, options{Log: io.Discard, Store: manyConns, Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, badLine, goodLine)
		config.HTTP.AnswerBytes, config.HTTP.AnswerPatience = budget, time.Hour
	}})
	c.Key = good
	c.bigTree("big", 12)

	before := heap()
	var conns []net.Conn
	for range 24 {
		conns = append(conns, c.unread(details+"big", bad))
	}
	for c.Metric("actlog_http_answer_bytes") < budget/4 || c.refusedAnswers() < 10 ||
		c.Metric("actlog_http_requests_in_flight") > 1 {
		c.Write(plan("p"), step("p", "p", "s"))
		wantStatus(t, c.Get(details+"p"), http.StatusOK)
	}

	if held := c.Metric("actlog_http_answer_bytes"); held > budget/2 { // the share of one client
		t.Errorf("%v bytes are held", held)
	}
	if grown := heap() - before; grown > budget+32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}

	wantStatus(t, c.Get(details+"big"), http.StatusOK) // another client has room for it
	wantStatus(t, c.Outside(http.MethodGet, details+"big", "Accept-Encoding", "zstd"), http.StatusOK)
	for _, conn := range conns {
		conn.Close()
	}
	c.WantMetric("actlog_http_answer_bytes", 0)
	c.WantMetric(`actlog_http_turns{of="large answers"}`, 0)
}

// TestAnAnswerThatIsTooLarge: N14: one answer has at most half of the memory. The refusal says
// where to read the rest.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.AnswerBytes = 8 << 20 }})
	c.bigTree("big", 6)

	for _, path := range []string{details + "big", "/api/v1/plans/big"} {
		a := c.Get(path)
		wantProblem(t, a, http.StatusRequestEntityTooLarge, nil)
		if !bytes.Contains(a.Body, []byte("/api/v1/plans/{planId}/records")) {
			t.Errorf("a.Body = %s", a.Body)
		}
	}

	wantStatus(t, c.Get(exported("big")), http.StatusOK)
	wantStatus(t, c.Get(agentExecution+"big-3"), http.StatusOK)
	c.WantMetric("actlog_http_answer_bytes", 0)
}

// TestClientsHaveToRead: N14: a client that does not read is cut, whatever it asked for, and
// what it held is released.
func TestClientsHaveToRead(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"tree": details + "big", "step": agentExecution + "long-s", "export": exported("long"),
		"events": "/api/v1/plans/long/events",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveWith(t, options{Log: io.Discard, Server: func(config *apitest.Config) {
				config.HTTP.AnswerPatience = 500 * time.Millisecond
			}})

			c.bigTree("big", 12)
			c.bigStep("long", 32)
			c.unread(path, "")
			c.WantMetric("actlog_http_answers_cut_total", 1)
			c.WantMetric("actlog_http_answer_bytes", 0)
			c.WantMetric(`actlog_http_turns{of="long reads"}`, 0)
		})
	}
}

// TestAClientThatReadsSlowlyGetsItAll: N14: it is not cut as long as it reads on.
func TestAClientThatReadsSlowlyGetsItAll(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Log: io.Discard, Server: func(config *apitest.Config) {
		config.HTTP.AnswerPatience = time.Second
	}})
	c.bigTree("big", 6)
	whole := c.Get(details+"big", "Accept-Encoding", "identity").Body

	conn := c.unread(details+"big", "")
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	var got bytes.Buffer
	for err == nil {
		_, err = io.CopyN(&got, resp.Body, 256<<10)
		c.Get("/livez") // meanwhile
	}
	if err != io.EOF || !bytes.Equal(got.Bytes(), whole) {
		t.Errorf("%v after %d of %d bytes", err, got.Len(), len(whole))
	}
}

// largeStep is the size of a large step, in MiB.
var largeStep = 96

// TestLargeStepsAreStreamed: N17: a step of large texts is complete, in order and valid JSON,
// and takes little memory while 12 clients hold it up. Exports go the same way.
func TestLargeStepsAreStreamed(t *testing.T) { // alone: other tests grow the heap, too
	pgtest.NotRaced(t, "it measures the heap, which the detector makes larger")
	c := serveWith(t, options{Log: io.Discard, Store: manyConns, Server: func(config *apitest.Config) {
		config.HTTP.AnswerPatience = time.Hour
	}})
	c.bigStep("p", largeStep)

	before := heap()
	var conns []net.Conn
	for range 12 {
		conns = append(conns, c.unread(agentExecution+"p-s", ""))
	}
	for c.refusedAnswers() < 12-api.MaxLong || api.Long(c.Server.API) < api.MaxLong {
		c.Write(plan("q"))
	}

	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	wantProblem(t, c.Get(agentExecution+"p-s"), http.StatusTooManyRequests, nil)
	wantProblem(t, c.Get("/api/v1/steps/p-s"), http.StatusTooManyRequests, nil)

	for _, conn := range conns {
		conn.Close()
	}
	c.WantMetric(`actlog_http_turns{of="long reads"}`, 0)
	c.WantMetric("actlog_http_answer_bytes", 0)

	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		a := wantStatus(t, c.Outside(http.MethodGet, agentExecution+"p-s", "Accept-Encoding", encoding), http.StatusOK)
		a.Body = apitest.Decompress(t, a.Header.Get("Content-Encoding"), a.Body)
		cycles := lookup(t, a.JSON(t), "thinkActSteps").([]any)
		if len(cycles) != largeStep*4+1 {
			t.Fatalf("%s: %d cycles", encoding, len(cycles))
		}
		for i, cycle := range cycles {
			expect(t, cycle, obj{"seq": i})
			if i > 0 {
				expect(t, cycle, obj{
					"actToolInfoList.#": 2, "actToolInfoList.0.id": fmt.Sprintf("p%d-2", i),
					"actToolInfoList.1.id": fmt.Sprintf("p%d-1", i),
				})
			}
		}
	}
	wantStatus(t, c.Do(http.MethodHead, agentExecution+"p-s", nil), http.StatusOK)
}

// TestALargeCycleIsStreamed: N17: a single cycle may hold more than an answer may.
func TestALargeCycleIsStreamed(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	c := serveWith(t, options{Log: io.Discard, Server: func(config *apitest.Config) {
		config.HTTP.AnswerBytes = 16 << 20
	}})

	c.bigStep("p", 1)
	c.Exec(`INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, result)
		SELECT root_plan_id, step_id, 2, 'large-' || n, part, repeat('0123456789abcdef', 65536)
		FROM actlog.agent_execution_record, generate_series(1, 24) AS n`)

	a := wantStatus(t, c.Get(agentExecution+"p-s", "Accept-Encoding", "identity"), http.StatusOK)
	calls := lookup(t, a.JSON(t), "thinkActSteps.2.actToolInfoList").([]any)
	if len(calls) != 26 || len(a.Body) < 24<<20 {
		t.Errorf("%d calls in %d bytes", len(calls), len(a.Body))
	}
	c.WantMetric("actlog_http_answer_bytes", 0)
}

// TestOldTreesTakeNoMoreRoom: N14: a tree whose detail does not lie where it is looked for first is
// held once.
func TestOldTreesTakeNoMoreRoom(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.AnswerBytes = 16 << 20 }})
	c.bigTree("big", 6)
	for _, table := range []string{"plan_execution_record", "agent_execution_record"} {
		c.Exec("UPDATE actlog." + table + " SET part = part - 70")
	}
	wantStatus(t, c.Get(details+"big"), http.StatusOK)
}

// TestAStreamedStepThatBreaksOffIsSeen: N17: the connection breaks if the database goes away.
func TestAStreamedStepThatBreaksOffIsSeen(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Log: io.Discard})
	c.bigStep("p", 64)

	r := c.Request(t.Context(), http.MethodGet, agentExecution+"p-s", nil, "Accept-Encoding", "identity")
	resp, err := c.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 1000); err != nil {
		t.Fatal(err)
	}

	c.Exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid " +
		"<> pg_backend_pid()")
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("half a step looks whole")
	}
}

// TestReadersLeaveConnectionsToWriters: N15: readers that hold every connection they may do not
// stop writers.
func TestReadersLeaveConnectionsToWriters(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Log: io.Discard, Store: func(s *store.Config) {
		s.MaxConns = 8
	}, Server: func(config *apitest.Config) { config.HTTP.ReadTimeout = time.Second }})
	c.Write(plan("p"))

	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE actlog.artifact"); err != nil { // who reads artifacts waits
		t.Fatal(err)
	}

	const readers = 40
	statuses := make(chan int, readers)
	for range readers {
		go func() {
			resp, err := c.HTTP.Get(c.Base + "/api/v1/plans/p/artifacts")
			if err != nil {
				statuses <- 0
				return
			}
			resp.Body.Close()
			statuses <- resp.StatusCode
		}()
	}

	for c.Metric("actlog_store_connections_acquired") < 6 {
		c.Get("/livez")
	}
	for i := range 20 {
		c.Write(plan("q", obj{"title": fmt.Sprint(i)}))
	}

	for range readers {
		if status := <-statuses; status != http.StatusServiceUnavailable { // also for the time spent in the queue
			t.Errorf("status %d", status)
		}
	}
}

// TestSearchesAreBounded: N15: one key may have two searches at once. Others of it wait, and the
// wait counts in the time of the list; another key has turns.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	bad, badLine := apitest.NewKey(t, "bad", httpd.ScopeRead)
	good, goodLine := apitest.NewKey(t, "good", httpd.ScopeRead, httpd.ScopeWrite)
	c := serveWith(t, options{Log: io.Discard, Store: manyConns, Server: func(config *apitest.Config) {
		config.HTTP.Keys, config.Lookup.ListTimeout = apitest.Keys(t, badLine, goodLine), 2*time.Second
	}})
	c.Key = good
	c.Write(plan("p"))

	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	// who searches waits, as for a long scan
	if _, err := tx.Exec(t.Context(), "LOCK TABLE actlog.agent_execution_record"); err != nil {
		t.Fatal(err)
	}

	const searches = 60
	answers := make(chan *http.Response, searches)
	for range searches {
		go func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base+"/api/v1/plans?agent=nobody", nil)
			r.Header.Set("Authorization", "Bearer "+bad)
			resp, err := c.HTTP.Do(r)
			if err != nil {
				t.Error(err)
				resp = &http.Response{Body: http.NoBody}
			}
			resp.Body.Close()
			answers <- resp
		}()
	}

	for c.Metric(`actlog_http_turns{of="searches"}`) < 2 {
		c.Get("/livez")
	}
	for range 20 {
		if n := c.Metric(`actlog_http_turns{of="searches"}`); n > 2 {
			t.Errorf("%v searches at once", n)
		}
	}

	for range searches {
		resp := <-answers
		if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable ||
			resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}

	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, c.Get("/api/v1/plans?agent=nobody"), http.StatusOK)
	c.WantMetric(`actlog_http_turns{of="searches"}`, 0)
}
