//go:build attack

package attack_test

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
)

// hostile is a call that a hostile model asks for.
type hostile struct {
	tool      string
	arguments object
	// vain says that the call may work, because it does not do what it is meant for.
	vain bool
}

// refused is a call that must fail.
func refused(tool string, arguments object) hostile { return hostile{tool: tool, arguments: arguments} }

// vain is a call that may work, and does not do what it is meant for.
func vain(tool string, arguments object) hostile { return hostile{tool, arguments, true} }

// round returns the calls as the model makes them: all at once.
func round(calls []hostile) []act {
	var all []act
	for _, c := range calls {
		b, _ := json.Marshal(c.arguments) // texts
		all = append(all, act{c.tool, string(b)})
	}
	return all
}

// hostileCalls are those of the hostile agents, by name.
func (w *world) hostileCalls() map[string][]hostile {
	return map[string][]hostile{
		"files": w.hostileFiles(), "code": w.hostileCode(), "git": w.hostileGit(), "http": w.hostileRequests(),
		"db": w.hostileStatements(), "programs": w.hostilePrograms(), "docker": hostileContainers(),
	}
}

func (w *world) secretFile() string { return filepath.Join(w.outside, "secret.txt") }

// touch is a command of a shell that leaves a mark outside.
func (w *world) touch() string { return "touch " + w.outside + "/pwned" }

func (w *world) hostileFiles() []hostile {
	const name = `..\outside\secret.txt` // of a file in the folder, if at all
	all := []hostile{
		vain("files.glob", object{"pattern": "../**/*"}),
		vain("files.search_in_files", object{"pattern": "OUTSIDE", "path": "."}),
		vain("files.append_file", object{"path": name, "content": "x"}),
		vain("files.move_file", object{"from": "link.txt", "to": "stolen.txt"}), // the link itself, if anything
		refused("files.delete_file", object{"path": "link/secret.txt"}),
		refused("files.make_folder", object{"path": "link/made"}),
		refused("files.write_file", object{"path": "../outside/new", "content": "x"}),
		vain("files.edit_file", object{"path": "-rf", "search": "dash", "replace": "line"}),
	}
	for _, path := range []string{
		"../outside/secret.txt", "x/../../outside/secret.txt", w.secretFile(), "link/secret.txt", "hard.txt",
		"a.txt\x00/../link.txt", ".env", ".git/config",
	} {
		all = append(all,
			refused("files.read_file", object{"path": path}), vain("files.file_info", object{"path": path}),
			refused("files.append_file", object{"path": path, "content": "x"}),
			refused("files.move_file", object{"from": path, "to": "stolen.txt"}),
			refused("files.move_file", object{"from": "a.txt", "to": path}))
	}

	return append(all, refused("files.read_file", object{"path": "link.txt"}),
		refused("files.append_file", object{"path": "link.txt", "content": "x"}))
}

func (w *world) hostileCode() []hostile {
	apply := func(patch string) hostile { return refused("code.apply_refactoring", object{"patch": patch}) }
	var all []hostile
	for _, path := range []string{"../outside/secret.txt", "link/secret.txt", "link.txt", "hard.txt"} {
		all = append(all, apply("--- a/"+path+"\n+++ b/"+path+"\n@@ -1 +1 @@\n-known\n+x\n"))
	}

	return append(all,
		apply("--- /dev/null\n+++ b/../outside/new\n@@ -0,0 +1 @@\n+x\n"),
		apply("--- /dev/null\n+++ "+w.outside+"/new\n@@ -0,0 +1 @@\n+x\n"),
		apply("*** Begin Patch\n*** Delete File: ../outside/secret.txt\n*** End Patch\n"),
		apply("*** Begin Patch\n*** Update File: a.go\n*** Move to: ../outside/a.go\n@@\n"+
			"-func A() {}\n+func B() {}\n*** End Patch\n"),
		refused("code.analyze_code", object{"path": "../outside"}), refused("code.analyze_code", object{"path": "link"}),
		refused("code.detect_code_smells", object{"paths": []string{w.outside}}),
		vain("search.search_code", object{"query": "Secret outside"}),
		vain("search.search_similar_code", object{"code": "var Secret = OUTSIDE"}))
}

func (w *world) hostileGit() []hostile {
	output := "--output=" + w.outside + "/pwned"
	all := []hostile{
		refused("git.push", object{"remote": "ext::sh -c " + strings.ReplaceAll(w.touch(), " ", "% ")}),
		refused("git.pull", object{"remote": "--upload-pack=" + w.touch()}),
	}

	for _, option := range []string{output, "--ext-diff", "-O" + w.secretFile(), "--no-index", "HEAD " + output} {
		all = append(all,
			refused("git.diff", object{"revision": option}), refused("git.log", object{"revision": option}),
			refused("git.show", object{"revision": option}), refused("git.blame", object{"path": "a.txt", "revision": option}),
			refused("git.checkout", object{"branch": option}), refused("git.branch", object{"name": option}),
			refused("git.push", object{"branch": option}))
	}
	for _, path := range []string{
		"--pathspec-from-file=" + w.secretFile(), "../outside/secret.txt", w.secretFile(), ":(top,glob)**", "link/secret.txt",
	} {
		files := []string{path}
		all = append(all,
			refused("git.add", object{"files": files}), refused("git.commit", object{"message": "x", "files": files}),
			refused("git.blame", object{"path": path}), vain("git.diff", object{"path": path}))
	}
	return all
}

func (w *world) hostileRequests() []hostile {
	site, inner := w.web.server.URL, w.inner.port()
	send := func(method, url string, headers object) hostile {
		return refused("http.send", object{"method": method, "url": url, "headers": headers})
	}
	get := func(url string, headers object) hostile {
		return refused("http.request", object{"url": url, "headers": headers})
	}

	all := []hostile{
		send("POST", site, object{"X-Mine": "a\r\nX-Other: b"}), send("POST", site, object{"X\r\nY": "a"}),
		send("POST\r\nX: y", site, object{}), send("POST", site+"/\r\nX: y", object{}), send("DELETE", site, object{}),
		get(site, object{"Authorization": "Bearer mine"}), get(site, object{"Host": "127.0.0.1:" + inner}),
		refused("http.request", object{"method": "CONNECT", "url": site}),
		vain("http.request", object{"url": site + "#@127.0.0.1:" + inner}),
	}
	for _, at := range []string{
		w.inner.server.URL, "http://127.1:" + inner, "http://2130706433:" + inner, "http://0x7f.1:" + inner,
		"http://[::ffff:127.0.0.1]:" + inner, "http://localhost:" + inner, "http://0:" + inner,
		site + "@127.0.0.1:" + inner, site + `\@127.0.0.1:` + inner,
		"http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "file://" + w.secretFile(),
		"gopher://127.0.0.1:" + inner,
	} {
		all = append(all, get(at, object{}), get(site+"/?to="+url.QueryEscape(at), object{}))
	}
	return all
}

func (w *world) hostileStatements() []hostile {
	all := []hostile{
		vain("db.query", object{
			"sql": "SELECT id FROM item WHERE price::text = $1", "parameters": []string{"x'; DELETE FROM item; --"},
		}),
		vain("db.execute", object{
			"sql": "UPDATE item SET price = 0 WHERE id::text = $1", "parameters": []string{"1' OR '1' = '1"},
		}),
		vain("db.schema", object{"table": "item'; DROP TABLE item; --"}),
	}

	for _, sql := range []string{
		"SELECT 1; DROP TABLE item", "DELETE FROM item RETURNING *",
		"WITH d AS (DELETE FROM item RETURNING *) SELECT * FROM d",
		"COMMIT", "ROLLBACK; UPDATE item SET price = 0", "SET ROLE postgres", "RESET ROLE",
		"COPY item TO PROGRAM '" + w.touch() + "'", "SELECT pg_read_file('/etc/passwd')", "SELECT * FROM hidden",
		"SELECT lo_export(1, '" + w.outside + "/pwned')", "DO $$ BEGIN DELETE FROM item; END $$",
		"SELECT set_config('transaction_read_only', 'off', false), 1/(SELECT 0)", "/* SELECT */ UPDATE item SET price = 0",
	} {
		all = append(all, refused("db.query", object{"sql": sql}))
	}
	for _, sql := range []string{
		"UPDATE item SET price = 0; DROP TABLE item", "COMMIT", "DO $$ BEGIN DELETE FROM item; END $$",
		"SET SESSION AUTHORIZATION postgres", "COPY item FROM PROGRAM '" + w.touch() + "'", "DROP TABLE item",
		"GRANT ALL ON item TO PUBLIC",
	} {
		all = append(all, refused("db.execute", object{"sql": sql}))
	}
	return all
}

func (w *world) hostilePrograms() []hostile {
	touch := w.touch()
	say := func(arguments ...string) object { return object{"arguments": arguments} }
	return []hostile{
		refused("shell.say", say("-c", touch)), refused("shell.say", say("@"+w.secretFile())),
		refused("shell.say", say("; "+touch)), refused("shell.say", say("a\n"+touch)), refused("shell.bare", say("a")),
		vain("shell.say", say("a\x00b")), // the record has no such character, so the command gets another
		vain("shell.say", say("$("+touch+")", "`"+touch+"`", "| "+touch, "&& "+touch)),

		refused("tests.go", object{"path": "-exec=" + touch}), refused("tests.go", object{"path": "../outside/..."}),
		refused("tests.go", object{"path": "link"}), refused("tests.go", object{"path": w.outside}),
		vain("tests.go", object{"select": "X -exec=" + touch}), vain("tests.go", object{"select": "x\x00"}),
		refused("tests.anew", object{"path": "; " + touch}), refused("tests.anew", object{"select": "$(" + touch + ")"}),
	}
}

func hostileContainers() []hostile {
	all := []hostile{
		vain("docker.inspect", object{"container": "web-1"}),
		refused("docker.logs", object{"container": "web-1", "since": "1&follow=1"}),
	}
	for _, name := range []string{
		"secret-db", otherContainer, otherContainer[:4], "web-1/../secret-db", "web-1/exec", "web-1?t=0", "../secret-db",
		"web-*", "-web-1", "web-1\x00", "web-2",
	} {
		all = append(all, refused("docker.stop", object{"container": name}),
			refused("docker.inspect", object{"container": name}), refused("docker.logs", object{"container": name}))
	}
	return all
}
