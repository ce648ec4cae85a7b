package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/runtime/config"
)

// fits checks a command line of actlog that a file of deploy has, and the variables beside it.
func fits(t *testing.T, where string, args, variables []string) {
	t.Helper()
	code, help, stderr := actlog(t, append(slices.Clone(args), "--help")...)
	if code != exitDone {
		t.Errorf("%s: %q: %s", where, args, stderr)
	}

	for _, name := range variables {
		if strings.HasPrefix(name, "ACTLOG_") && !strings.Contains(help, "$"+name) {
			t.Errorf("%s: actlog %s knows no variable %s", where, args[0], name)
		}
	}
}

// valueOf returns the value of a flag in a command line.
func valueOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// needed is how long a server or a worker may take to stop, with what its flags say.
func needed(t *testing.T, args []string) time.Duration {
	t.Helper()
	if args[0] == "work" {
		return 20*time.Second + 3*time.Second + leastToClose // --drain, and the lease of a run
	}

	delay, err := time.ParseDuration(valueOf(args, "--drain-delay"))
	if err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return delay + drainTimeout + leastToClose
}

// readsConfiguration checks that the configuration of a folder of deploy can be used.
func readsConfiguration(t *testing.T, folder string) {
	t.Helper()
	lookup := func(name string) (string, bool) { return "", strings.HasPrefix(name, "OPENAI_") }
	current, err := config.Open(filepath.Join(deployFolder, folder, "actlog.yaml"), config.Options{Lookup: lookup})
	if err != nil {
		t.Errorf("%s: %v", folder, err)
		return
	}
	current.Close()
}

// TestComposePair checks that the containers of deploy/pair fit each other and the files around them.
func TestComposePair(t *testing.T) {
	t.Parallel()
	secrets := passwords(t, "pair")
	project, err := composeStack(t, "pair", secrets)
	if err != nil {
		t.Fatal(err)
	}

	if want := []string{
		"monitor", "pg1", "pg2", "proxy", "server1", "server2", "worker",
	}; !slices.Equal(project.ServiceNames(), want) {
		t.Fatalf("services %v, want %v", project.ServiceNames(), want)
	}

	readsConfiguration(t, "pair")
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(deployFolder, "pair", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}

	proxy, node := read("haproxy.cfg"), read("node")
	for name, s := range project.Services {
		checkService(t, s)
		if s.HealthCheck == nil {
			t.Errorf("%s has no health check", name)
		}
		if s.Image != "actlog" {
			continue
		}

		fits(t, name, s.Command, mapKeys(s.Environment))
		fits(t, name, s.HealthCheck.Test[2:], nil)
		if grace := time.Duration(*s.StopGracePeriod); grace <= needed(t, s.Command) {
			t.Errorf("%s is killed after %s", name, grace)
		}

		for _, variable := range []string{"ACTLOG_DATABASE_URL", "ACTLOG_REPLICA_URL"} {
			text := s.Environment[variable]
			if text == nil {
				if variable == "ACTLOG_DATABASE_URL" {
					t.Errorf("%s has no %s", name, variable)
				}
				continue
			}

			u, err := url.Parse(*text)
			if err != nil {
				t.Fatal(err)
			}

			for host := range strings.SplitSeq(u.Host, ",") {
				if n, ok := project.Services[host]; !ok || n.Hostname != host || n.Command[0] != "data" {
					t.Errorf("%s: %s names %s", name, variable, host)
				}
			}

			role, database := u.User.Username(), u.Path[1:]
			if password, _ := u.User.Password(); password != secrets["POSTGRES_PASSWORD"] ||
				!strings.Contains(node, "CREATE ROLE "+role+" LOGIN PASSWORD") ||
				!strings.Contains(node, "CREATE DATABASE "+database+" OWNER "+role+" ") {
				t.Errorf("%s connects to %s", name, u.Redacted())
			}
		}

		_, port, _ := strings.Cut(valueOf(s.Command, "--listen"), ":")
		if behind := strings.Contains(proxy, "\n    server "+name+" "+name+":"+port+
			"\n"); behind != (s.Command[0] == "serve") {
			t.Errorf("%s behind the proxy: %t", name, behind)
		}
	}

	// The proxy sees that a server stops before it refuses connections.
	var interval time.Duration
	if m := regexp.MustCompile(`check inter (\w+) .*fall 2 `).FindStringSubmatch(proxy); m != nil {
		interval, _ = time.ParseDuration(m[1])
	}
	delay, _ := time.ParseDuration(valueOf(project.Services["server1"].Command, "--drain-delay"))
	if interval <= 0 || delay < 3*interval || !strings.Contains(proxy, "uri /readyz ") ||
		!strings.Contains(proxy, "use_backend alive if { nbsrv(servers) eq 0 }") {
		t.Errorf("the proxy looks every %s, and a server waits %s", interval, delay)
	}

	// Nobody comes in over the network without a password.
	if strings.Count(node, "trust") != 1 || !strings.Contains(node, "local pg_auto_failover autoctl_node trust") ||
		strings.Count(node, "scram-sha-256") != 1 {
		t.Error("node lets others in without a password")
	}
	for _, name := range []string{"POSTGRES_PASSWORD", "REPLICATION_PASSWORD", "MONITOR_PASSWORD"} {
		if project.Services["pg1"].Environment[name] == nil || !strings.Contains(node, "$"+name) {
			t.Errorf("the nodes do not use %s", name)
		}
	}

	for _, m := range regexp.MustCompile(`(?m)^#   docker compose run --rm --no-deps (\S+) (.*)$`).FindAllStringSubmatch(read("compose.yaml"), -1) {
		fits(t, m[0], strings.Fields(m[2]), nil)
	}

	if out, err := exec.CommandContext(t.Context(), "sh", "-n",
		filepath.Join(deployFolder, "pair", "node")).CombinedOutput(); err != nil {
		t.Errorf("CombinedOutput = %v\n%s", err, out)
	}
}

func mapKeys(environment types.MappingWithEquals) (names []string) {
	for name := range environment {
		names = append(names, name)
	}
	return names
}

// manifest is what the checks need of a resource of Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Replicas  int
		Selector  yaml.Node
		Bootstrap struct {
			Initdb struct{ Database, Owner string }
		}
		Postgresql struct {
			Synchronous struct{ DataDurability string }
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				TerminationGracePeriodSeconds int
				Containers                    []struct {
					Args []string
					Env  []struct {
						Name, Value string
						ValueFrom   struct{ SecretKeyRef struct{ Name string } }
					}
					Ports        []struct{ Name string }
					VolumeMounts []struct{ Name, MountPath string }
				}
				Volumes []struct {
					Name      string
					Secret    struct{ SecretName string }
					ConfigMap struct{ Name string }
				}
			}
		}
	}
}

// decodeManifest decodes the next document by the rules of JSON, as Kubernetes does: names of fields need no tags.
func decodeManifest(documents *yaml.Decoder, to any) error {
	var content map[string]any
	if err := documents.Decode(&content); err != nil {
		return err
	}

	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// TestKubernetes checks that the manifests fit each other and the program. The test of package clients checks their
// fields.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(deployFolder, "kubernetes")
	readsConfiguration(t, "kubernetes")

	var kustomization struct {
		Resources          []string
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		}
	}
	content, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err == nil {
		err = decodeManifest(yaml.NewDecoder(bytes.NewReader(content)), &kustomization)
	}
	if err != nil {
		t.Fatal(err)
	}

	all, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if named := append(slices.Clone(kustomization.Resources),
		kustomization.ConfigMapGenerator[0].Files...); len(all) != len(named)+1 {
		t.Errorf("kustomization.yaml names %v, there are %v", named, all)
	}

	resources := map[string]manifest{}
	for _, name := range kustomization.Resources {
		file, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}

		for documents := yaml.NewDecoder(bytes.NewReader(file)); ; {
			var m manifest
			if err := decodeManifest(documents, &m); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			resources[m.Kind+"/"+m.Metadata.Name] = m
		}
	}

	cluster := resources["Cluster/actlog-postgres"]
	if cluster.Spec.Postgresql.Synchronous.DataDurability != "required" {
		t.Error("a commit does not wait for a standby")
	}

	for _, name := range []string{"actlog-server", "actlog-worker"} {
		d, budget := resources["Deployment/"+name], resources["PodDisruptionBudget/"+name]
		if d.Spec.Replicas != 2 || budget.Kind == "" || resources["NetworkPolicy/"+name].Kind == "" ||
			d.Spec.Template.Metadata.Labels["app.kubernetes.io/name"] != name {
			t.Fatalf("%s: %+v", name, d)
		}

		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		var variables []string
		for _, e := range c.Env {
			variables = append(variables, e.Name)
			if secret := e.ValueFrom.SecretKeyRef.Name; secret != "" && secret != cluster.Metadata.Name+"-app" {
				t.Errorf("%s: %s is in secret %s", name, e.Name, secret)
			}
			if e.Name == "ACTLOG_REPLICA_URL" {
				u, err := url.Parse(strings.Replace(e.Value, "$(POSTGRES_PASSWORD)", "password", 1))
				if err != nil || u.Host != cluster.Metadata.Name+"-ro" ||
					u.User.Username() != cluster.Spec.Bootstrap.Initdb.Owner || u.Path != "/"+cluster.Spec.Bootstrap.Initdb.Database {
					t.Errorf("%s: %s: %v", name, e.Value, err)
				}
			}
		}

		fits(t, name, c.Args, variables)
		if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; grace <= needed(t, c.Args) {
			t.Errorf("%s is killed after %s", name, grace)
		}

		mounted := map[string]string{} // what is mounted, by folder
		for _, m := range c.VolumeMounts {
			for _, v := range pod.Volumes {
				if v.Name == m.Name {
					mounted[m.MountPath] = v.Secret.SecretName + v.ConfigMap.Name
				}
			}
		}

		configuration := valueOf(c.Args, "--config")
		if mounted[filepath.Dir(configuration)] != kustomization.ConfigMapGenerator[0].Name ||
			filepath.Base(configuration) != kustomization.ConfigMapGenerator[0].Files[0] {
			t.Errorf("%s: %s is not mounted: %v", name, configuration, mounted)
		}
		if keys := valueOf(c.Args, "--api-keys"); mounted[filepath.Dir(keys)] != "actlog-keys" ||
			!strings.Contains(string(content), "create secret generic actlog-keys --from-file="+filepath.Base(keys)+"\n") {
			t.Errorf("%s: %s is not mounted: %v", name, keys, mounted)
		}
	}
}

// TestKubernetesExtras checks that what is beside the manifests fits them, and the program.
func TestKubernetesExtras(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(deployFolder, "kubernetes")

	decode := func(name string, to any) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = decodeManifest(yaml.NewDecoder(bytes.NewReader(content)), to)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}

	for _, part := range []string{"migrate", "monitoring", "scaling"} {
		var kustomization struct{ Resources []string }
		decode(filepath.Join(part, "kustomization.yaml"), &kustomization)
		all, err := filepath.Glob(filepath.Join(folder, part, "*"))
		if err != nil || len(all) != len(kustomization.Resources)+1 {
			t.Errorf("%s: kustomization.yaml names %v, there are %v, %v", part, kustomization.Resources, all, err)
		}
	}

	var job manifest
	decode("migrate/job.yaml", &job)
	c := job.Spec.Template.Spec.Containers[0]
	fits(t, "job.yaml", c.Args, []string{c.Env[0].Name})

	network, err := os.ReadFile(filepath.Join(folder, "network.yaml"))
	if label := job.Spec.Template.Metadata.Labels["app.kubernetes.io/name"]; err != nil || label == "" ||
		!strings.Contains(string(network), ", "+label+"]") {
		t.Errorf("pods of %q may not reach Postgres: %v", label, err)
	}

	var monitor struct {
		Spec struct {
			Selector struct {
				MatchExpressions []struct{ Values []string }
			}
			PodMetricsEndpoints []struct{ Port, Path string }
		}
	}
	decode("monitoring/podmonitor.yaml", &monitor)
	for _, name := range monitor.Spec.Selector.MatchExpressions[0].Values {
		var deployment manifest
		decode(strings.TrimPrefix(name, "actlog-")+".yaml", &deployment)
		endpoint := monitor.Spec.PodMetricsEndpoints[0]
		if deployment.Spec.Template.Metadata.Labels["app.kubernetes.io/name"] != name ||
			deployment.Spec.Template.Spec.Containers[0].Ports[0].Name != endpoint.Port || endpoint.Path != "/metrics" {
			t.Errorf("%s: %+v", name, endpoint)
		}
	}

	var scaler struct {
		Spec struct {
			ScaleTargetRef struct{ Kind, Name string }
			MinReplicas    int
			Metrics        []struct {
				External struct{ Metric struct{ Name string } }
			}
		}
	}
	decode("scaling/hpa.yaml", &scaler)
	var workers manifest
	decode("worker.yaml", &workers)
	if target := scaler.Spec.ScaleTargetRef; target.Kind+"/"+target.Name != workers.Kind+"/"+workers.Metadata.Name ||
		scaler.Spec.MinReplicas != workers.Spec.Replicas {
		t.Errorf("it scales %+v, from %d", target, scaler.Spec.MinReplicas)
	}

	scaling, err := os.ReadFile(filepath.Join(folder, "scaling", "kustomization.yaml"))
	if err != nil || !strings.Contains(string(scaling), "name: {as: "+scaler.Spec.Metrics[0].External.Metric.Name+"}") {
		t.Errorf("the rule of the adapter lacks the metric: %v", err)
	}
}

// TestUnits checks the units of systemd, with its own program if that is there.
func TestUnits(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile(filepath.Join(deployFolder, "systemd", "secrets.example"))
	if err != nil {
		t.Fatal(err)
	}

	var secrets []string
	for _, m := range regexp.MustCompile(`(?m)^#?(\w+)=`).FindAllStringSubmatch(string(example), -1) {
		secrets = append(secrets, m[1])
	}

	folder := t.TempDir()
	for name, stops := range map[string]string{"actlog.service": "50", "actlog-work.service": "60"} {
		content, err := os.ReadFile(filepath.Join(deployFolder, "systemd", name))
		if err != nil {
			t.Fatal(err)
		}

		unit := string(content)
		command := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/actlog (.*)$`).FindStringSubmatch(unit)
		if command == nil || !strings.Contains(unit, "\nTimeoutStopSec="+stops+"\n") ||
			!strings.Contains(unit, "\nEnvironmentFile=/etc/actlog/secrets\n") {
			t.Fatalf("%s:\n%s", name, unit)
		}

		args := strings.Fields(command[1])
		variables := secrets
		if args[0] == "work" { // which has no replica
			variables = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return s == "ACTLOG_REPLICA_URL" })
		}
		fits(t, name, args, variables)

		if !strings.Contains(unit, "\nMemoryMax=") {
			t.Errorf("%s may use all memory", name)
		}
		if limit, _ := time.ParseDuration(stops + "s"); limit <= needed(t, args) {
			t.Errorf("%s is killed after %s", name, limit)
		}

		path := filepath.Join(folder, name)
		unit = strings.ReplaceAll(unit, "/usr/local/bin/actlog ", os.Args[0]+" ") // it must be there
		if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze")
	}

	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no",
		filepath.Join(folder, "actlog.service"), filepath.Join(folder, "actlog-work.service")).CombinedOutput()
	if err != nil || strings.Contains(string(out), folder) || strings.Contains(string(out), "actlog") {
		t.Errorf("CombinedOutput = %v\n%s", err, out)
	}
}
