package content_test

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/content"
)

var update = flag.Bool("update", false, "write the golden vectors")

// prose returns a text of about so many bytes, the same for a seed.
func prose(seed uint64, size int) string {
	words := strings.Fields("the model reads pages of the wiki and finds größere Lücken 大規模 языковые модели " +
		"{\"role\":\"user\",\"content\":\"ok\"} run_sql")
	r := rand.New(rand.NewPCG(seed, 0))

	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[r.IntN(len(words))])
		fmt.Fprintf(&b, "%d ", r.IntN(1000))
	}
	return b.String()
}

func texts(contents []content.Content) content.Texts {
	all := content.Texts{}
	for _, c := range contents {
		all.Add(c)
	}
	return all
}

// everything is cut into small pieces.
var small = content.Sizes{Cut: 1, Least: 1, Average: 64, Most: 256}

// TestGolden holds where texts are cut, and how contents are hashed: what is on record depends on it.
func TestGolden(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	noise := make([]byte, 40_000)
	for i := range noise {
		noise[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[r.IntN(64)]
	}

	var got strings.Builder
	for _, v := range []struct{ name, text string }{
		{"prose", prose(1, 100_000)}, {"one letter", strings.Repeat("a", 20_000)}, {"no blanks", string(noise)},
		{"characters of 3 bytes", strings.Repeat("漢字仮名", 2_000)}, {
			"escapes", strings.Repeat(`{"a":"\n\u003cdiv\u003e\t\"x\""},`, 1_000),
		},
	} {
		parts, contents := content.DefaultSizes.CutText(v.text)
		fmt.Fprintf(&got, "%s: %d parts, %s\n", v.name, len(parts), content.Mark(v.text))
		for _, c := range contents {
			fmt.Fprintf(&got, "%s %d bytes, %d parts\n", hex.EncodeToString(c.Hash[:]), len(c.Body), len(c.Pieces))
		}
	}

	path := filepath.Join("testdata", "golden.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-golden +got):\n%s", diff)
	}
}

// TestHash checks the hashes that the documentation describes.
func TestHash(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("Lücke"))
	if got := content.HashOf("Lücke"); got != content.Hash(sum[:16]) {
		t.Errorf("content.HashOf = %x", got)
	}

	if mark := content.Mark("x"); !content.IsMark(mark) || !content.DefaultSizes.Cuts(mark) ||
		content.DefaultSizes.Cuts("x") {
		t.Errorf("a text that looks like the mark %s has to be cut", mark)
	}
}

// TestSameText checks texts of many sizes: what was cut is put together again, and pieces have their
// bounds and whole characters.
func TestSameText(t *testing.T) {
	t.Parallel()
	for _, z := range []content.Sizes{small, content.DefaultSizes} {
		for i, size := range []int{0, 1, 2, 3, 63, 64, 65, 511, 512, 513, 4096, 8192, 8193, 50_000, 1 << 20} {
			for _, text := range []string{prose(uint64(i), size), strings.Repeat("漢", size/3), strings.Repeat("a", size)} {
				parts, contents := z.CutText(text)
				all := texts(contents)
				if got := all.Text(parts); got != text || all.Bytes(parts) != len(text) {
					t.Fatalf("%d bytes cut by %+v: %d bytes are put together", len(text), z, len(got))
				}

				for _, c := range contents {
					if c.Pieces == nil && (len(c.Body) == 0 || len(c.Body) > z.Most || !utf8.ValidString(c.Body)) {
						t.Fatalf("a piece of %d bytes: %.100q", len(c.Body), c.Body)
					}
				}
			}
		}
	}
}

// TestConversation checks that what a conversation adds is all that it costs: the turns before have the
// same pieces, also behind a front that changes. A text names few contents directly.
func TestConversation(t *testing.T) {
	t.Parallel()
	const turn = 8_000
	seen := content.Texts{}
	added, whole := 0, 0

	talk := ""
	for i := range uint64(100) {
		talk += prose(100+i, turn)
		text := fmt.Sprintf("It is %d o'clock. ", i) + talk
		whole += len(text)

		parts, contents := content.DefaultSizes.CutText(text)
		for _, c := range contents {
			if _, ok := seen[c.Hash]; !ok {
				added += c.Bytes()
				seen.Add(c)
			}
		}

		if limit := 3*flat + len(text)/8_000; len(parts) > limit {
			t.Errorf("turn %d: %d bytes name %d contents directly", i, len(text), len(parts))
		}
	}

	if perTurn := added / 100; perTurn > 2*turn {
		t.Errorf("a turn of %d bytes adds %d; the texts have %d", turn, perTurn, whole/100)
	}
}

const flat = 16

// TestWordsStayWhole checks that no short word or escape is cut, also where there are no blanks.
func TestWordsStayWhole(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, `{"id_%d":"\n\u003c%.20x\\"},`, i, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	_, contents := content.DefaultSizes.CutText(b.String())

	const between = `{":},`
	last := between
	for _, c := range contents {
		if c.Pieces != nil {
			continue
		}

		if !strings.ContainsAny(last[len(last)-1:], between) && !strings.ContainsAny(c.Body[:1], between) {
			t.Fatalf("a word is cut: %q, %q", last[len(last)-20:], c.Body[:20])
		}
		last = c.Body
	}
}

// TestMissing checks that a text says which of its parts is missing.
func TestMissing(t *testing.T) {
	t.Parallel()
	parts, contents := small.CutText(prose(1, 300))
	all := texts(contents)
	delete(all, parts[0])

	want := fmt.Sprintf("[a part of this text is missing: %s]", parts[0])
	if got := all.Text(parts); !strings.HasPrefix(got, want) || all.Bytes(parts) != len(got) {
		t.Errorf("all.Text(parts) = %s", got)
	}
}

func FuzzCutText(f *testing.F) {
	f.Add("a b c", 1)
	f.Add(prose(1, 20_000), 512)
	f.Fuzz(func(t *testing.T, text string, least int) {
		z := content.Sizes{Cut: 1, Least: 1 + max(least, -least)%512, Average: 1024, Most: 2048}
		if text = strings.ToValidUTF8(text, "\uFFFD"); z.Least < 1 { // the least integer has no absolute value
			z.Least = 1
		}

		parts, contents := z.CutText(text)
		if got := texts(contents).Text(parts); got != text {
			t.Fatalf("%q is put together as %q", text, got)
		}
	})
}

// BenchmarkCutText measures cutting and hashing, and the mark.
func BenchmarkCutText(b *testing.B) {
	text := prose(1, 1<<20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		_ = content.Mark(text)
		_, _ = content.DefaultSizes.CutText(text)
	}
}
