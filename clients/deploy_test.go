//go:build clients

package clients_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubernetesManifests checks the manifests with the schemas of Kubernetes. Those of CloudNativePG and of the
// Prometheus operator come in no package, so the test of cmd/actlog only checks that what is for them fits the others.
func TestKubernetesManifests(t *testing.T) {
	t.Parallel()
	bin, err := client{name: "kubernetes"}.install()
	if err != nil {
		t.Fatal(err)
	}

	validate := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kubernetes-validate"),
			append([]string{"--strict", "--no-warn"}, args...)...).CombinedOutput()
		return string(out), err
	}
	folder := filepath.Join("..", "deploy", "kubernetes")
	files := []string{
		filepath.Join(folder, "server.yaml"), filepath.Join(folder, "worker.yaml"), filepath.Join(folder, "network.yaml"),
	}
	files = append(files, filepath.Join(folder, "migrate", "job.yaml"), filepath.Join(folder, "scaling", "hpa.yaml"))

	resources := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		resources += bytes.Count(append([]byte("\n"), content...), []byte("\nkind: "))
	}
	for _, version := range []string{"1.30", "1.37"} {
		out, err := validate(append([]string{"-k", version}, files...)...)
		if err != nil || strings.Count(out, " passed for resource ") != resources {
			t.Errorf("version %s: %v, want %d resources\n%s", version, err, resources, out)
		}
	}

	// A mistake is found.
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}

	wrong := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(wrong, bytes.Replace(content, []byte("runAsNonRoot"), []byte("runAsNonroot"), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := validate(wrong); err == nil {
		t.Errorf("a misspelled field is accepted:\n%s", out)
	}
}
