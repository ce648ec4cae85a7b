package treesitter

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outline writes a tree as nested lists, with the fields of nodes, and the text of those without children.
func outline(t *Tree) string {
	var b strings.Builder
	var write func(i int)
	write = func(i int) {
		n := t.Nodes[i]
		if n.Field != "" {
			b.WriteString(n.Field + ":")
		}
		if n.Missing {
			b.WriteString("missing ")
		}
		b.WriteString(n.Type)

		if n.Next == i+1 {
			fmt.Fprintf(&b, "=%q", t.Text(i))
			return
		}

		b.WriteString("(")
		for c := range t.Children(i) {
			if c > i+1 {
				b.WriteString(" ")
			}
			write(c)
		}
		b.WriteString(")")
	}

	write(0)
	return b.String()
}

// Each language has its grammar, and nodes have types, fields and texts.
func TestParse(t *testing.T) {
	for _, row := range []struct {
		language   Language
		text, want string
	}{
		{Python, "def f(a):\n    return a and 1\n",
			`module(function_definition(name:identifier="f" parameters:parameters(identifier="a") body:block(return_statement(boolean_operator(left:identifier="a" operator:and="and" right:integer="1")))))`},
		{Java, "class A {}", `program(class_declaration(name:identifier="A" body:class_body="{}"))`},
		{TypeScript, "let a = <T>b",
			`program(lexical_declaration(kind:let="let" variable_declarator(name:identifier="a" value:type_assertion(type_arguments(type_identifier="T") identifier="b"))))`},
		{TSX, "let a = <T/>",
			`program(lexical_declaration(kind:let="let" variable_declarator(name:identifier="a" value:jsx_self_closing_element(name:identifier="T"))))`},
		{Python, "", `module=""`},
	} {
		tree, err := Parse(t.Context(), row.language, []byte(row.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := outline(tree); got != row.want || tree.Broken {
			t.Errorf("%s %q: %s", row.language, row.text, got)
		}
	}
}

// The files are those that were published: fetch.sh compares the same sums.
func TestFilesAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile("wasm/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}

	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); found++ {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		content, err := file(strings.TrimSuffix(name, ".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: sha256 %x, want %s", name, sum, want)
		}
	}

	if found != int(languages)+1 {
		t.Errorf("%d sums, want one of the core and one for each language", found)
	}
}

// Nodes are at bytes of UTF-8, whatever the text has: characters of one to four bytes, both kinds of line breaks, a
// byte order mark, and bytes that are no UTF-8.
func TestPlaces(t *testing.T) {
	for name, before := range map[string]string{
		"empty": "", "ascii": "a = 1\n", "umlauts": "ä = 'äöü'\n", "emoji": "s = '👩‍🚀👩‍🚀' # 🚀\n", "CRLF": "s = '🚀'\r\n\r\n",
		"BOM": "\ufeffs = 1\n", "bad": "s = '\xff\xfe\xf0\x9f'\n", "long": strings.Repeat("s = '🚀' # äöü\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			text := before + "def größe(a🚀, b):\r\n    return '🚀'\r\n"
			tree, err := Parse(t.Context(), Python, []byte(text))
			if err != nil {
				t.Fatal(err)
			}

			line := strings.Count(before, "\n") + 1
			for i, n := range tree.Nodes {
				if n.Type == "function_definition" {
					if n.Start != len(before) || n.End != len(text)-2 || n.Line != line || n.EndLine != line+1 {
						t.Errorf("%+v of a text of %d bytes", n, len(text))
					}
					if name := tree.Text(tree.Child(i, "name")); name != "größe" {
						t.Errorf("name %q", name)
					}
					return
				}
			}
			t.Errorf("no function: %s", outline(tree))
		})
	}
}

// Errors of syntax have line, column and what is there. Texts without errors have none.
func TestProblems(t *testing.T) {
	for _, row := range []struct {
		language Language
		text     string
		want     string
	}{
		{Python, "def f():\n    return 1\n", ""},
		{Python, "def f(:\n    return 1\n", "1:7: ) is missing"},
		{Python, "def f():\nreturn 1\n", "1:9: an indented block is missing"},
		{Python, "'🚀'; x = = 1\n", `1:10: this cannot be parsed: "="`},
		{TypeScript, "function f() {\n  if (a) {\n    b();\n}\n", "4:2: } is missing"},
		{TypeScript, "let a = <T>b", ""},
		{TSX, "let a = <T>b", `1:1: this cannot be parsed: "let a = <T>b"`},
		{TSX, "const a = <div>\r\n<span></div>;\r\n",
			`1:1: the lines from here to 2 cannot be parsed; they begin with "const a = <div>"`},
		{Java, "class A {\n  void f() {\n    g(;\n  }\n}\n", `3:6: this cannot be parsed: "("`},
		{Java, "class A {}\n}\n", `2:1: this cannot be parsed: "}"`},
	} {
		tree, err := Parse(t.Context(), row.language, []byte(row.text))
		if err != nil {
			t.Fatal(err)
		}

		first := ""
		if found := tree.Problems(); len(found) > 0 {
			first = found[0].String()
		}
		if first != row.want {
			t.Errorf("%s %q: %v, want %s", row.language, row.text, first, row.want)
		}
	}

	tree, err := Parse(t.Context(), Java, []byte(strings.Repeat("class A { int }\n", 1000)))
	if err != nil || len(tree.Problems()) != maxProblems {
		t.Errorf("%d problems, %v", len(tree.Problems()), err)
	}
}

// Hostile texts: a tree or an error, in time, and the next text is parsed as ever.
func TestHostile(t *testing.T) {
	t.Parallel()
	const many = 300_000

	for _, row := range []struct {
		name     string
		language Language
		text     string
	}{
		{"parentheses", Python, strings.Repeat("(", 1_000_000)},
		{"brackets", TypeScript, strings.Repeat("[", many)},
		{"elements", TSX, strings.Repeat("<a>", many/3)},
		{"types", Java, strings.Repeat("A<", many/2)},
		{"not", TSX, strings.Repeat("!", many)},
		{"comment", Java, "/*" + strings.Repeat("a", MaxText-2)},
		{"too large", Java, strings.Repeat("a", MaxText+1)},
		{"zeros", Python, strings.Repeat("\x00", many)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			const limit = time.Second
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()

			tree, err := Parse(ctx, row.language, []byte(row.text))
			if err == nil && len(tree.Nodes) == 0 || err != nil && !errors.Is(err, ErrTooLarge) &&
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Parse(row.language, []byte(row.text)) = %v", err)
			}
		})
	}

	t.Cleanup(func() { // after all of them
		for l := range languages {
			tree, err := Parse(context.Background(), l, []byte("a"))
			if err != nil || len(tree.Nodes) < 2 {
				t.Errorf("%s after hostile texts: %v", l, err)
			}
		}
	})
}

// A context that has ended ends the parsing, wherever it is.
func TestContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if tree, err := Parse(ended, Python, []byte("a = 1\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("tree = %v %v", tree, err)
	}

	text := []byte(strings.Repeat("class A { int f() { return 1; } }\n", 100_000)) // takes seconds
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := Parse(ctx, Java, text); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Parse(Java, text) = %v", err)
	}
}

// TestAtOnce and the tests above have no hostile texts beside them, which take their time.
//
// Texts are parsed at the same time by instances of their own. None is kept that has grown.
func TestAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for n := range 4 * atOnce {
		group.Go(func() {
			text := strings.Repeat(fmt.Sprintf("f%d(1)\n", n), 200)
			tree, err := Parse(t.Context(), Language(n%int(languages)), []byte(text))
			if err != nil {
				t.Errorf("text %d: %v", n, err)
				return
			}
			if !strings.Contains(outline(tree), fmt.Sprintf("%q", fmt.Sprintf("f%d", n))) {
				t.Errorf("text %d has the tree of another one", n)
			}
		})
	}
	group.Wait()

	for l, kept := range idle {
		for range len(kept) {
			i := <-kept
			if i.memory.Size() > maxGrown {
				t.Errorf("%s: an instance with %d MiB is kept", Language(l), i.memory.Size()>>20)
			}
			kept <- i
		}
	}
}

// FuzzParse: any text has a tree whose nodes lie within the text and within each other, or an error.
func FuzzParse(f *testing.F) {
	for l, name := range samples {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(l), text)

		// Compiling takes longer than an input may: a worker that takes 10 seconds counts as hung.
		if _, err := Parse(f.Context(), Language(l), text); err != nil {
			f.Fatal(err)
		}
	}

	f.Add(uint8(Python), []byte("if a:\n\tb('🚀\xff'\r\n"))
	f.Add(uint8(TSX), []byte("<a>{`${b}`}</a"))
	f.Fuzz(func(t *testing.T, language uint8, text []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		tree, err := Parse(ctx, Language(language)%languages, text)
		if err != nil {
			if errors.Is(err, ErrTooLarge) || errors.Is(err, context.DeadlineExceeded) {
				return
			}
			t.Fatal(err)
		}

		for i, n := range tree.Nodes {
			if n.Start < 0 || n.End < n.Start || n.End > len(text) || n.Line < 1 || n.EndLine < n.Line || n.Next <= i ||
				n.Next > len(tree.Nodes) {
				t.Fatalf("node %d: %+v", i, n)
			}
			if i > 0 && (n.Parent < 0 || n.Parent >= i || n.Next > tree.Nodes[n.Parent].Next ||
				n.End > tree.Nodes[n.Parent].End) {
				t.Fatalf("node %d lies not within its parent: %+v", i, n)
			}
		}
		for _, p := range tree.Problems() {
			if p.Line < 1 || p.Column < 1 || p.What == "" {
				t.Fatalf("p = %+v", p)
			}
		}
	})
}
