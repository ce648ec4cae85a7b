package folder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// S11: which files may hold secrets follows from their names, however they are written.
func TestSecret(t *testing.T) {
	t.Parallel()
	none := folder.Allow("/work")
	for _, at := range []string{
		".env", ".ENV", "a/.env", ".env.local", ".env.production.local", "prod.env", ".envrc", ".env~", ".env.bak",
		"a/.env.swp", ".env.old.bak",
		"a.pem", "A.PEM", "tls.key", "tls.key.bak", "x.p12", "x.pfx", "x.jks", "x.keystore", "x.ppk", "x.kdbx",
		"id_rsa", "keys/id_ed25519", "id_rsa.old", ".id_rsa.swp", "deploy_rsa", "github_ed25519", ".ssh/config",
		"home/.ssh/known_hosts", ".SSH/x", ".gnupg/a/b",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass", ".my.cnf", ".dockercfg",
		"a/.docker/config.json", ".kube/config", ".kube/config.bak",
		".aws/credentials", ".aws/config", ".config/gcloud/x.json", ".cargo/credentials.toml", "kubeconfig",
		"kubeconfig.yaml", "dev.kubeconfig",
		"secrets.yaml", "secrets.yml", "Secrets.YAML", "secret.json", "secrets.prod.yaml", "app-secrets.yml",
		"k8s/db-secret.yaml", "secrets.toml", ".secrets", "secrets",
		"credentials", "credentials.json", "gcp_credentials.json", "credentials.csv", "passwords.txt", "db_password.txt",
		"passwd",
		"service-account.json", "service_account_prod.json", "my-service-account.json", "x-firebase-adminsdk-1.json",
		"client_secret_1.json", "gha-creds-1.json",
		"terraform.tfstate", "terraform.tfstate.backup", "prod.tfvars", ".bash_history", ".vault-token", ".actlog/password",
		"etc/shadow", "run/secrets/db",
		".env.bak1", "secrets.yaml.old2", "id_rsa.bak.1", "id_rsa.~1~", ".id_rsa.swn", "tls.key.backup-2024", "env.local",
		"env.prod.local", "a.pem.txt", "id_rsa.txt",
		"server.pem", "privkey.pem", "gcp-key.json", "prod_key.json", "wp-config.php", "wp-config.php.bak",
		"secrets.yaml.j2", "credentials.json.tpl", "secrets.yml.erb", ".env.j2",
		"auth.json", ".codex/auth.json", ".composer/auth.json.bak", ".env.sh", ".env.php", "terraform.tfstate.17.backup",
	} {
		if err := none.Secret(at); err == nil || !strings.HasPrefix(err.Error(), at+" may hold secrets") ||
			!strings.Contains(err.Error(), "allow") {
			t.Errorf("%s: %v, want an error", at, err)
		}
	}

	for _, at := range []string{
		".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "env.go", "environment.yaml",
		".environment", "a/env/x.go",
		"id_rsa.pub", "keys/id_ed25519.pub", "id_rsa_test.go", "key.go", "keyboard.json", "pem.go", "monkey.md",
		"public.crt", "ca.cer",
		"secrets.go", "secrets.md", "secret_test.py", "docs/secrets.html", "secrets.example.yaml", "secrets.yaml.example",
		"credentials.ts", "secretary.json",
		"password.go", "docker/config.json", "kube/config", ".dockerignore", ".gitignore", "config.json", "package.json",
		"token.go", "service-account.md",
		"example_service-account.json", "main.tf", "history.md", "tokens.json", ".github/workflows/ci.yml", "README",
		".env.d.ts", ".env.js", ".env.test.py", ".env.go", ".env.md", ".env.j2.example", "reset-password.json",
		"password_reset.txt", "forgot_password.txt", "password-policy.yaml",
		"public.pem", "app.pub.pem", "public-key.pem", "public_key.json",
		"sign_rsa.go", "verify_ecdsa.py", "x_ed25519.rs", "wp-config-sample.php", "secrets.html.erb", "secrets.tpl",
		"main.go.bak1", "notes.txt", "passwd.5",
	} {
		if err := none.Secret(at); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	if folder.Allow("/home/ada/.ssh").Secret("x") == nil || folder.Allow("/").Secret("etc/shadow") == nil {
		t.Error("what is above the folder does not count")
	}

	for _, row := range []struct{ pattern, at string }{
		{".env", "a/.env"}, {"/.env", ".env"}, {".ENV.*", ".env.test"}, {"testdata/", "testdata/a/x.pem"},
		{"testdata/**", "testdata/a/x.pem"}, {"*", "id_rsa"}, {"a/*.KEY", "a/x.key"},
	} {
		allowed := folder.Allow("/work", "nothing", row.pattern)
		if err := allowed.Secret(row.at); err != nil {
			t.Errorf("%s allows %s: %v", row.pattern, row.at, err)
		}
		if allowed.Secret("other/.netrc") == nil != (row.pattern == "*") {
			t.Errorf("%s allows other/.netrc", row.pattern)
		}
	}
	if allowed := folder.Allow("/", "*.pem", "!prod.pem"); allowed.Secret("a.pem") != nil ||
		allowed.Secret("prod.pem") == nil {
		t.Error("a pattern with ! does not take back")
	}
}

// S11: links to secrets and hard links are found, and files that the kernel makes are not read.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"a.txt": "a", ".env": "secret", "deep/.netrc": "secret", "../" + filepath.Base(outside) + "/x": "outside",
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Symlink("deep/../.env", filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(outside, "x"), filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}

	f, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for name, want := range map[string]string{
		"notes.txt": ".env may hold secrets", "deep/.netrc": "may hold secrets", "hard": "hard is a hard link", "a.txt": "",
	} {
		_, _, _, err := f.Content(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}

		at, err := f.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Lstat(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Replace(at, []byte("new"), info); (err == nil) != (want == "") {
			t.Errorf("replace %s: %v", name, err)
		}
	}

	if err := f.Replace("new/id_rsa", []byte("new"), nil); err == nil {
		t.Error("a new file with a secret name is written")
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a folder is made for a file that is not written")
	}
	if b, err := os.ReadFile(filepath.Join(outside, "x")); err != nil || string(b) != "outside" {
		t.Errorf("os.ReadFile = %q, %v", b, err)
	}

	allowing, err := folder.Open(dir, ".env", "hard")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { allowing.Close() })
	for name, want := range map[string]string{"notes.txt": "secret", "hard": "outside"} {
		if _, content, _, err := allowing.Content(name); err != nil || string(content) != want {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}
