package docker_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/docker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// daemon is one on a socket, which answers as a test says.
type daemon struct {
	t     *testing.T
	mu    sync.Mutex
	asked []string
	tools *tool.Set
}

const (
	webID = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	dbID  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// answers are those of a daemon with the containers web-1, which runs, web-2, which does not, and secret-db.
func answers() map[string]http.HandlerFunc {
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
	}

	return map[string]http.HandlerFunc{
		"GET /containers/json": text(`[{"Id": "` + webID +
			`", "Names": ["/web-1"], "Image": "shop:1", "State": "running", "Status": "Up 2 hours (healthy)", "Created": 1},
			{"Id": "cccccccccccc", "Names": ["/web-2"], "Image": "shop:\u001b[31m2\nX", "State": "exited", "Status": "Exited (1)"},
			{"Id": "` + dbID + `", "Names": ["/secret-db"], "Image": "postgres", "State": "running"},
			{"Id": "../../x", "Names": ["/web-bad"], "State": "running"}, {"Id": "dddddddddddd", "Names": ["/web 4; rm"]}]`),
		"GET /containers/" + webID + "/json": text(`{"Id": "` + webID +
			`", "Name": "/web-1", "State": {"Status": "running", "Health": {"Status": "healthy"}}, "RestartCount": 3,
			"Path": "run", "Args": ["--token=hunter2"], "Config": {"Image": "shop:1", "Env": ["PASSWORD=hunter2", "PATH=/bin"], "Cmd": ["--token=hunter2"], "Labels": {"a": "hunter2"}},
			"Mounts": [{"Type": "bind", "Source": "/home/hunter2", "Destination": "/data", "RW": true}], "NetworkSettings": {"Ports": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}]}}}`),
		"GET /containers/" + webID +
			"/logs": func(w http.ResponseWriter, _ *http.Request) { w.Write(frames("one\n", "tw", "o\n")) },
		"GET /containers/" + webID +
			"/stats": text(
			`{"cpu_stats": {"cpu_usage": {"total_usage": 300}, "system_cpu_usage": 2000, "online_cpus": 4}, "precpu_stats": {"cpu_usage": {"total_usage": 100}, "system_cpu_usage": 1000}, "memory_stats": {"usage": 5000000, "limit": 9000000}, "pids_stats": {"current": 7}, "networks": {"eth0": {"rx_bytes": 2000, "tx_bytes": 3000}}}`,
		),
		"GET /images/json": text(`[{"Id": "sha256:x", "RepoTags": ["shop:1", "shop:latest"], "Size": 12000000}]`),
		"POST /containers/" + webID +
			"/stop": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"POST /containers/" + webID + "/restart": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		},
		"POST /containers/cccccccccccc/start": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, `{"message": "port is already \u001b[31mallocated\n"}`)
		},
	}
}

// frames returns a log in frames.
func frames(texts ...string) (all []byte) {
	for i, text := range texts {
		all = append(binary.BigEndian.AppendUint32(append(all, byte(1+i%2), 0, 0, 0), uint32(len(text))), text...)
	}
	return all
}

// start starts a daemon with tools that may use web-*.
func start(t *testing.T, change func(map[string]http.HandlerFunc), set func(*docker.Options)) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	o := docker.Options{Socket: filepath.Join(dir, "s"), Write: true, Containers: []string{"web-*"},
		Timeout: 20 * time.Second}
	if set != nil {
		set(&o)
	}

	listener, err := net.Listen("unix", o.Socket)
	if err != nil {
		t.Fatal(err)
	}

	d, all := &daemon{t: t}, answers()
	if change != nil {
		change(all)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.mu.Lock()
			d.asked = append(d.asked, r.Method+" "+r.URL.RequestURI())
			d.mu.Unlock()

			answer, ok := all[r.Method+" "+r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			answer(w, r)
		})}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })

	some, err := docker.Tools(o)
	if err != nil {
		t.Fatal(err)
	}
	if d.tools, err = tool.NewSet(some...); err != nil {
		t.Fatal(err)
	}
	return d
}

// call calls a tool, after an approval if its policy wants one.
func (d *daemon) call(name string, arguments object) (tool.Result, error) {
	d.t.Helper()
	one, ok := d.tools.Get(name)
	if !ok {
		d.t.Fatalf("there is no %s", name)
	}
	b, err := json.Marshal(arguments)
	if err != nil {
		d.t.Fatal(err)
	}

	call, policy := tool.Call{ID: "call-1", Arguments: b}, one.Spec().Policy
	if policy.Approval {
		p, _, err := tool.PreviewOf(d.t.Context(), one, policy, call)
		if err != nil {
			return tool.Failure(err.Error()), nil
		}
		call.Approved = p.Digest
	}
	return tool.Do(d.t.Context(), one, policy, call, 0)
}

func (d *daemon) failure(name string, arguments object, want string) {
	d.t.Helper()
	result, err := d.call(name, arguments)
	if err != nil || !result.Failed || !strings.Contains(result.Text, want) {
		d.t.Errorf("%s %v: got %q, %v, want %q", name, arguments, result.Text, err, want)
	}
}

// posted returns the requests that changed something.
func (d *daemon) posted() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, each := range d.asked {
		if !strings.HasPrefix(each, "GET ") {
			all = append(all, each)
		}
	}
	return all
}

// What is read of containers is what a model may know: no secrets, no other containers, no escapes.
func TestRead(t *testing.T) {
	t.Parallel()
	d := start(t, nil, nil)
	web := object{"container": "web-1"}

	for _, tt := range []struct {
		name      string
		arguments object
		want      string
	}{
		{"docker.list_containers", object{}, "web-1: running, Up 2 hours (healthy), image shop:1, made "},
		{"docker.list_containers", object{"all": true},
			"web-2: exited, Exited (1), image shop:2 X, made unknown\n(2 containers)"},
		{"docker.inspect", web, `"RestartCount": 3`},
		{"docker.inspect", web, `"variables": [` + "\n    \"PASSWORD\",\n    \"PATH\"\n  ]"},
		{"docker.logs", web, "one\ntwo\n"},
		{"docker.stats", web, "web-1: processor 80.0% of one, memory 5 of 9 MB, 7 processes, received 2 kB, sent 3 kB"},
		{"docker.list_images", object{}, "shop:1, shop:latest, 12 MB, made unknown\n(1 images)"},
	} {
		result, err := d.call(tt.name, tt.arguments)
		if err != nil || result.Failed || !strings.Contains(result.Text, tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.name, result.Text, err, tt.want)
		}
		if all := result.Text + string(result.Data); strings.Contains(all, "hunter2") || strings.Contains(all, "secret-db") ||
			strings.Contains(all, "web-bad") {
			t.Errorf("%s shows %s", tt.name, all)
		}
	}

	for _, name := range []string{"secret-db", webID, webID[:12], "web-1/../x", "web-1?all=1", "", "../images"} {
		d.failure("docker.inspect", object{"container": name}, "is not allowed; allowed are: web-*")
	}
	d.failure("docker.logs", object{"container": "web-3"}, "there is none with the name web-3")
	d.failure("docker.stats", object{"container": "web-2"}, "does not run")
}

// Logs are asked for within bounds.
func TestLogArguments(t *testing.T) {
	t.Parallel()
	d := start(t, nil, nil)
	for want, arguments := range map[string]object{
		"tail: want 1 to 2000": {"container": "web-1", "tail": 5000},
		"since: want a time":   {"container": "web-1", "since": "yesterday"},
	} {
		d.failure("docker.logs", arguments, want)
	}

	if _, err := d.call("docker.logs",
		object{"container": "web-1", "tail": 5, "since": "2026-01-31T12:00:00Z"}); err != nil {
		t.Error(err)
	}

	want := "GET /containers/" + webID + "/logs?since=1769860800&stderr=true&stdout=true&tail=5&timestamps=true"
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.asked, want) {
		t.Errorf("d.asked = %q", d.asked)
	}
}

// What changes a container is shown before, and done to that container.
func TestWrite(t *testing.T) {
	t.Parallel()
	d := start(t, nil, nil)
	stop, _ := d.tools.Get("docker.stop")
	policy := stop.Spec().Policy
	if !policy.Approval || !policy.Writes {
		t.Errorf("policy = %+v", policy)
	}

	call := tool.Call{Arguments: json.RawMessage(`{"container": "web-1"}`)}
	p, _, err := tool.PreviewOf(t.Context(), stop, policy, call)
	if want := "docker stop web-1\nimage: shop:1\nid: aaaaaaaaaaaa\nstate now: running\n"; err != nil || p.Text != want ||
		p.Kind != tool.PreviewCommand {
		t.Errorf("p.Text = %q, %v", p.Text, err)
	}

	for name, want := range map[string]string{"docker.stop": "web-1 is stopped.",
		"docker.restart": "web-1 is restarted."} {
		if result, err := d.call(name, object{"container": "web-1"}); err != nil || result.Text != want {
			t.Errorf("%s: %q, %v", name, result.Text, err)
		}
	}
	d.failure("docker.start", object{"container": "web-1"}, "web-1 is running already; there is nothing to do")
	d.failure("docker.start", object{"container": "web-2"}, "the daemon says: port is already allocated (500)")
	d.failure("docker.stop", object{"container": "secret-db"}, "is not allowed")

	got := d.posted()
	slices.Sort(got)
	if want := []string{"POST /containers/" + webID + "/restart?t=10", "POST /containers/" + webID + "/stop?t=10",
		"POST /containers/cccccccccccc/start"}; !slices.Equal(got, want) {
		t.Errorf("d.posted() = %q", got)
	}

	readOnly := start(t, nil, func(o *docker.Options) { o.Write = false })
	for _, name := range readOnly.tools.Names() {
		if one, _ := readOnly.tools.Get(name); one.Spec().Policy.Writes {
			t.Errorf("there is %s", name)
		}
	}
}

// If another container has the name by then, nothing is done to it.
func TestOtherContainer(t *testing.T) {
	t.Parallel()
	id := webID
	d := start(t, func(all map[string]http.HandlerFunc) {
		all["GET /containers/json"] = func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `[{"Id": %q, "Names": ["/web-1"], "State": "running"}]`, id)
		}
	}, nil)

	stop, _ := d.tools.Get("docker.stop")
	call := tool.Call{Arguments: json.RawMessage(`{"container": "web-1"}`)}
	p, _, err := tool.PreviewOf(t.Context(), stop, stop.Spec().Policy, call)
	if err != nil {
		t.Fatal(err)
	}

	id, call.Approved = dbID, p.Digest
	if result, err := tool.Do(t.Context(), stop, stop.Spec().Policy, call, 0); err != nil ||
		result.Text != tool.ErrChanged.Error() {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
	if got := d.posted(); len(got) > 0 {
		t.Errorf("d.posted() = %q", got)
	}
}

// After a request that was sent and had no answer nobody knows what happened, and the state of the container may say.
func TestUnknown(t *testing.T) {
	t.Parallel()
	state := "running"
	d := start(t, func(all map[string]http.HandlerFunc) {
		all["GET /containers/json"] = func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `[{"Id": %q, "Names": ["/web-1"], "State": %q}]`, webID, state)
		}
		all["POST /containers/"+webID+"/stop"] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}, nil)

	if _, err := d.call("docker.stop", object{"container": "web-1"}); !errors.Is(err, tool.ErrUnknown) {
		t.Error(err)
	}

	stop, _ := d.tools.Get("docker.stop")
	for _, state = range []string{"running", "exited"} {
		result, done, err := tool.Verify(t.Context(), stop, stop.Spec().Policy,
			tool.Call{Arguments: json.RawMessage(`{"container": "web-1"}`)})
		if err != nil || done != (state == "exited") {
			t.Errorf("%s: %v, %v, %v", state, result, done, err)
		}
	}
}

// Whatever a daemon answers, the call ends within its bounds, and says so.
func TestHostileDaemon(t *testing.T) {
	t.Parallel()
	endless := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
			}
		}
	}
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
	}

	for name, tt := range map[string]struct {
		path   string
		answer http.HandlerFunc
		call   string
		want   string
	}{
		"huge list": {"/containers/json", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "[")
			endless(strings.Repeat(`{"Id":"x"},`, 1000))(w, r)
		}, "docker.list_containers", "the daemon has more than 5000 of them"},
		"huge text": {"/containers/json", endless(`["` + strings.Repeat("x", 1<<16)), "docker.list_containers",
			"cannot be read"},
		"wrong types":     {"/containers/json", answer(`{"Id": 1}`), "docker.list_containers", "cannot be read"},
		"wrong container": {"/containers/" + webID + "/json", answer(`{"Config": [1]}`), "docker.inspect", "cannot be read"},
		"nothing":         {"/containers/json", answer(``), "docker.list_containers", "cannot be read"},
		"no HTTP": {"/containers/json", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"docker.list_containers", "cannot be read"},
		"redirect": {"/containers/json",
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/images/json", http.StatusFound) },
			"docker.list_containers", "(302)"},
		"frames cut": {"/containers/" + webID + "/logs",
			func(w http.ResponseWriter, _ *http.Request) { w.Write(frames("one\n", "two and more")[:18]) }, "docker.logs",
			"one\n"},
		"frame too long": {"/containers/" + webID + "/logs", answer("\x01\x00\x00\x00\xff\xff\xff\xffabc"), "docker.logs",
			"abc\n(the log is cut or broken here)"},
		"no frames": {"/containers/" + webID + "/logs", answer("plain text"), "docker.logs",
			"(the log is cut or broken here)"},
		"endless log": {"/containers/" + webID + "/logs", endless(string(frames(strings.Repeat("x", 1000) + "\n"))),
			"docker.logs", "bytes left out"},
		"escapes": {"/containers/" + webID + "/logs", answer(string(frames("a\x1b[31mb\x1b]0;title\x07c\u202ed\x00e\n"))),
			"docker.logs", "abcde\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, func(all map[string]http.HandlerFunc) { all["GET "+tt.path] = tt.answer }, nil)
			arguments := object{}
			if tt.call != "docker.list_containers" {
				arguments["container"] = "web-1"
			}

			result, err := d.call(tt.call, arguments)
			if err != nil || !strings.Contains(result.Text, tt.want) && !strings.Contains(result.Text, "has more than 8 MiB") ||
				len(result.Text) > tool.MaxText {
				t.Errorf("result.Text = %.300q, %v", result.Text, err)
			}
		})
	}
}

// A daemon that does not answer ends the call in time, and one that is not there is named.
func TestSlowDaemon(t *testing.T) {
	t.Parallel()
	d := start(t, func(all map[string]http.HandlerFunc) {
		all["GET /containers/json"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	}, func(o *docker.Options) { o.Timeout = 300 * time.Millisecond })
	d.failure("docker.list_containers", object{}, "No result within 300ms")

	nobody, err := docker.Tools(docker.Options{Socket: "/nowhere/docker.sock", Containers: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	d.tools, _ = tool.NewSet(nobody...)
	d.failure("docker.list_images", object{}, "the Docker daemon cannot be reached now")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Do(ctx, nobody[0], nobody[0].Spec().Policy, tool.Call{}, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Options are checked.
func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]docker.Options{
		"socket: want the path": {Socket: "tcp://x"}, "containers: name the containers": {Socket: "/x"},
		`containers: "a b" is no name`: {Socket: "/x", Containers: []string{"a b"}},
	} {
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("o.Check() = %v, want %s", err, want)
		}
	}
}
