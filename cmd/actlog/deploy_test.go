package main

import (
	"bytes"
	"io/fs"
	"maps"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

var deployFolder = filepath.Join("..", "..", "deploy")

// composeStack loads compose.yaml of a folder of deploy as Docker Compose does.
func composeStack(t *testing.T, name string, environment types.Mapping) (*types.Project, error) {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(deployFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: folder, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "compose.yaml")}},
		Environment: environment,
	})
}

// passwords returns the passwords that the script init of a folder of deploy creates. A stack does not start without
// one of them.
func passwords(t *testing.T, name string) types.Mapping {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(deployFolder, name, "init"))
	if err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	path := filepath.Join(folder, "init")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		t.Fatal(err)
	}

	made := types.Mapping{}
	var before []byte
	for range 2 { // the second run must change nothing
		if out, err := exec.CommandContext(t.Context(), "sh", path).CombinedOutput(); err != nil {
			t.Fatalf("CombinedOutput = %v\n%s", err, out)
		}
		env, err := os.ReadFile(filepath.Join(folder, ".env"))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, env) {
			t.Error("init overwrote .env")
		}
		before = env
	}

	if info, err := os.Stat(filepath.Join(folder, ".env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("info.Mode() = %v, %v", info.Mode(), err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=([0-9a-f]{48})$`).FindAllStringSubmatch(string(before), -1) {
		made[m[1]] = m[2]
	}
	if distinct := slices.Compact(slices.Sorted(maps.Values(made))); len(made) != 3 || len(distinct) != 3 {
		t.Errorf("init wrote\n%s", before)
	}

	for secret := range made {
		without := maps.Clone(made)
		delete(without, secret)
		if _, err := composeStack(t, name, without); err == nil || !strings.Contains(err.Error(), "./init") {
			t.Errorf("without %s: %v", secret, err)
		}
	}
	return made
}

// pinnedImage is an image of others: its version, for people, and its digest, which is what is run.
var pinnedImage = regexp.MustCompile(`^[a-z0-9./-]+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}$`)

// S11: every image that a file of the repository starts from or runs is pinned by its digest, but those that are built
// here.
func TestImagesByDigest(t *testing.T) {
	t.Parallel()
	builtHere := []string{"scratch", "actlog", "actlog-postgres"}
	line := regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|imageName|FROM):?\s+(?:--platform=\S+\s+)?["']?([^\s"']+)`)
	found, digests := 0, map[string]string{}

	for _, root := range []string{deployFolder, filepath.Join("..", "..", "docker-compose.yml")} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range line.FindAllStringSubmatch(string(text), -1) {
				if !regexp.MustCompile(`Dockerfile|\.ya?ml$`).MatchString(path) || slices.Contains(builtHere, m[1]) {
					continue
				}
				found++
				if !pinnedImage.MatchString(m[1]) {
					t.Errorf("%s: image %q has no version and digest", path, m[1])
				}

				tag, digest, _ := strings.Cut(m[1], "@")
				if before := digests[tag]; before != "" && before != digest {
					t.Errorf("%s: %s has two digests", path, tag)
				}
				digests[tag] = digest
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	if found < 7 {
		t.Errorf("found only %d images", found)
	}
}

// checkService checks what holds for the services of all stacks.
func checkService(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.Build == nil && !pinnedImage.MatchString(s.Image) {
		t.Errorf("%s: image %q has no version and digest", s.Name, s.Image)
	}
	if s.MemLimit == 0 || s.Logging == nil || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
		t.Errorf("%s may use all memory, or fill the disk with its log: %d, %+v", s.Name, s.MemLimit, s.Logging)
	}

	for _, p := range s.Ports {
		if ip := net.ParseIP(p.HostIP); ip == nil || !ip.IsLoopback() {
			t.Errorf("%s: other machines can reach port %s", s.Name, p.Published)
		}
	}
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeBind {
			continue
		}
		if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
			t.Errorf("%s: mount %+v: %v", s.Name, v, err)
		}
	}
}

// TestComposeStack checks that the containers fit each other and the files around them.
func TestComposeStack(t *testing.T) {
	t.Parallel()
	secrets := passwords(t, "compose")
	project, err := composeStack(t, "compose", secrets) // checks the schema, and that services and volumes exist
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"actlog", "grafana", "postgres", "report-login"}; !slices.Equal(project.ServiceNames(), want) {
		t.Fatalf("services %v, want %v", project.ServiceNames(), want)
	}

	actlogService, grafana := project.Services["actlog"], project.Services["grafana"]
	postgres, login := project.Services["postgres"], project.Services["report-login"]
	for name, s := range project.Services {
		checkService(t, s)
		if oneShot := name == "report-login"; oneShot != (s.HealthCheck == nil) {
			t.Errorf("%s: health check %+v", name, s.HealthCheck)
		}
	}

	// Only the other containers reach Postgres, with a generated password.
	if len(postgres.Ports) > 0 || postgres.Image != login.Image ||
		*postgres.Environment["POSTGRES_PASSWORD"] != secrets["POSTGRES_PASSWORD"] {
		t.Errorf("postgres = %+v", postgres)
	}

	u, err := url.Parse(*actlogService.Environment["ACTLOG_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if password != secrets["POSTGRES_PASSWORD"] || u.Hostname() != postgres.Name ||
		u.User.Username() != *postgres.Environment["POSTGRES_USER"] || u.Path != "/"+*postgres.Environment["POSTGRES_DB"] {
		t.Errorf("actlog connects to %s", u)
	}

	for name, want := range map[string]string{
		"PGHOST": u.Hostname(), "PGUSER": u.User.Username(), "PGPASSWORD": password, "PGDATABASE": u.Path[1:],
	} {
		if *login.Environment[name] != want {
			t.Errorf("report-login: %s is %q, want %q", name, *login.Environment[name], want)
		}
	}

	// The order is Postgres, Actlog (which migrates), the login, Grafana.
	for _, tt := range []struct {
		service   types.ServiceConfig
		on        string
		condition string
	}{
		{actlogService, "postgres", types.ServiceConditionHealthy},
		{login, "actlog", types.ServiceConditionHealthy},
		{grafana, "report-login", types.ServiceConditionCompletedSuccessfully},
	} {
		if got := tt.service.DependsOn[tt.on].Condition; got != tt.condition {
			t.Errorf("%s waits for %s with condition %q", tt.service.Name, tt.on, got)
		}
	}

	// The commands are valid command lines of actlog.
	for _, args := range [][]string{actlogService.Command, actlogService.HealthCheck.Test[2:]} {
		if code, _, stderr := actlog(t, append(slices.Clone(args), "--help")...); code != exitDone {
			t.Errorf("%q: %s", args, stderr)
		}
	}

	// The commands in the header of the file are valid, too, for actlog or for the image of Postgres.
	file, err := os.ReadFile(filepath.Join(deployFolder, "compose", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]int{}
	for _, m := range regexp.MustCompile(
		`(?m)^#   docker compose (?:exec|run|kill)(?: -\S+| HUP)* (\S+)([^#\n]*)`,
	).FindAllStringSubmatch(string(file), -1) {
		service, args := m[1], strings.Fields(m[2])
		in[service]++
		if service == "postgres" {
			if !strings.Contains(m[2], " -U "+*postgres.Environment["POSTGRES_USER"]) {
				t.Errorf("%s: wrong user", m[0])
			}
			continue
		}
		if len(args) > 0 && args[0] == actlogService.HealthCheck.Test[1] {
			args = args[1:]
		}
		if code, _, stderr := actlog(t, append(args, "--help")...); code != exitDone {
			t.Errorf("%s: %s", m[0], stderr)
		}
	}

	if want := map[string]int{"actlog": 2, "postgres": 2}; !maps.Equal(in, want) {
		t.Errorf("commands of the header: %v, want %v", in, want)
	}
	dockerfile, err := os.ReadFile(filepath.Join(actlogService.Build.Context, actlogService.Build.Dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	entrypoint := `ENTRYPOINT ["` + actlogService.HealthCheck.Test[1] + `"]`
	for _, line := range []string{entrypoint, "USER 65532:65532"} {
		if !strings.Contains(string(dockerfile), "\n"+line+"\n") {
			t.Errorf("Dockerfile lacks %s", line)
		}
	}

	module, err := os.ReadFile(filepath.Join(actlogService.Build.Context, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if _, wants, _ := strings.Cut(string(module), "\ngo "); !strings.HasPrefix(
		string(regexp.MustCompile(`golang:[\d.]+`).Find(dockerfile)), "golang:"+wants[:4],
	) {
		t.Error("Dockerfile and go.mod have different versions of Go")
	}

	// Grafana has the variables and files that its configuration names.
	provisioning := map[string]string{}
	for _, v := range grafana.Volumes {
		provisioning[v.Target] = v.Source
	}
	sources, err := os.ReadFile(filepath.Join(provisioning["/etc/grafana/provisioning"], "datasources", "actlog.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(string(sources), -1) {
		if grafana.Environment[name[1]] == nil {
			t.Errorf("Grafana has no variable %s", name[1])
		}
	}

	home := *grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if _, err := os.Stat(filepath.Join(provisioning[filepath.Dir(home)], filepath.Base(home))); err != nil {
		t.Error(err)
	}
	if *grafana.Environment["ACTLOG_REPORT_PASSWORD"] != *login.Environment["ACTLOG_REPORT_PASSWORD"] {
		t.Error("Grafana and its login have different passwords")
	}
}

// TestGrafanaLogin runs login.sql twice. The login can read reports and nothing else, and has the
// settings from the docs.
func TestGrafanaLogin(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql")
	script, err := os.ReadFile(filepath.Join(deployFolder, "grafana", "login.sql"))
	if err != nil {
		t.Fatal(err)
	}

	settings := regexp.MustCompile(`(?m)^ALTER ROLE grafana SET .*`)
	page := under(t, codeBlocks(t, "reporting.md", "sql"), "A login for reports", 2)[0]
	if diff := cmp.Diff(settings.FindAllString(page, -1), settings.FindAllString(string(script), -1)); diff != "" {
		t.Errorf("settings (-docs +login.sql):\n%s", diff)
	}

	databaseURL := docsServer(t)
	if code, _, stderr := actlog(t, "migrate", "up", "--database-url", databaseURL); code != exitDone {
		t.Fatalf("stderr = %v", stderr)
	}
	admin := connect(t, databaseURL, "")
	var before string
	for _, password := range []string{"first", `it's "$2"`} {
		cmd := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--quiet",
			"--file="+filepath.Join(deployFolder, "grafana", "login.sql"), databaseURL)
		cmd.Env = append(os.Environ(), "ACTLOG_REPORT_PASSWORD="+password)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("cmd.CombinedOutput() = %v\n%s", err, out)
		}

		var kept string
		if err := admin.QueryRow(t.Context(),
			"SELECT rolpassword FROM pg_authid WHERE rolname = 'grafana'").Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if kept == before || !strings.HasPrefix(kept, "SCRAM-SHA-256$") {
			t.Errorf("password %s is stored as %s", password, kept)
		}
		before = kept
	}

	conn := connect(t, databaseURL, "grafana")
	mustSQL(t, conn, "SELECT * FROM plan") // a view of schema report
	for sql, want := range map[string]string{
		"SELECT * FROM actlog.plan_execution_record": "permission denied",
		"CREATE TEMPORARY TABLE mine ()":             "read-only transaction",
	} {
		if _, err := runSQL(t, conn, sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestReady checks the exit code for a server that is ready, and for one that is stopping.
func TestReady(t *testing.T) {
	t.Parallel()
	handler := apitest.New(t, storetest.Open(t), apitest.Config{})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	if code, stdout, stderr := actlog(t, "ready", "--server", server.URL); code != exitDone || stdout != "ready\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	handler.HTTP.Drain()
	if code, _, stderr := actlog(t, "ready", "--server", server.URL); code != exitFailed ||
		!strings.Contains(stderr, "shutting down") {
		t.Errorf("while the server stops: exit code %d: %s", code, stderr)
	}
}
