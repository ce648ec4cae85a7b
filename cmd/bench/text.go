package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"
)

// text generates what agents write and read: prose, JSON, logs and code, from a seeded model of
// word frequencies. Values are cut out of long stretches. So they cost nothing during a
// measurement, and no two values are the same.
type text struct {
	seed    uint64
	prose   string
	prompts string // a mix of prose, JSON, logs and code
	results string // the same kinds in other proportions
	args    []string
}

const (
	stretch     = 4 << 20
	vocabulary  = 16_000
	frequent    = 120 // words that belong to no topic
	distinctArg = 4_000
)

func newText(seed uint64) *text {
	g := newGenerator(seed)
	return &text{
		seed:    seed,
		prose:   g.fill(stretch, g.paragraph),
		prompts: g.fill(stretch, g.paragraph, g.paragraph, g.bullets, g.object, g.code, g.logs),
		results: g.fill(stretch, g.object, g.logs, g.code, g.paragraph),
		args:    g.times(distinctArg, g.object),
	}
}

// cut returns a piece of a stretch with a random size in bytes. Half of the pieces are between two
// thirds and one and a half times the median; some are several times as long.
func cut(r *rand.Rand, stretch string, median int) string {
	size := int(float64(median) * math.Exp(0.6*r.NormFloat64()))
	size = max(16, min(size, 10*median))
	from := r.IntN(len(stretch) - size - 256)
	from += strings.IndexByte(stretch[from:], ' ') + 1
	to := from + size
	to += strings.IndexByte(stretch[to:], ' ')
	return stretch[from:to]
}

// sample returns values like those that are recorded.
func (t *text) sample(n int) (values []string) {
	r := rand.New(rand.NewPCG(t.seed, 0))
	for range n {
		values = append(values, t.prompt(r), t.answer(r), t.arg(r), t.result(r))
	}
	return values
}

func (t *text) title(r *rand.Rand) string  { return cut(r, t.prose, 40) }
func (t *text) prompt(r *rand.Rand) string { return cut(r, t.prompts, 4_000) }
func (t *text) answer(r *rand.Rand) string { return cut(r, t.prose, 600) }
func (t *text) result(r *rand.Rand) string { return cut(r, t.results, 1_500) }
func (t *text) arg(r *rand.Rand) string    { return t.args[r.IntN(len(t.args))] }

// zstd returns the compression ratio of 1 MiB of values as one block.
func (t *text) zstd() (float64, error) {
	all := strings.Join(t.sample(200), "\n")
	all = all[:min(len(all), 1<<20)]
	w, err := zstd.NewWriter(nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Close() }()
	return float64(len(all)) / float64(len(w.EncodeAll([]byte(all), nil))), nil
}

// stored returns the ratio by which Postgres compresses the values, each separately. It uses lz4 if
// Postgres has it, like the record.
func (t *text) stored(ctx context.Context, url string) (ratio float64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()

	if _, err := conn.Exec(ctx, `DO $$ BEGIN
		IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
			SET default_toast_compression = 'lz4';
		END IF; END $$`); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE sample AS SELECT value FROM unnest($1::text[]) AS value",
		t.sample(500)); err != nil {
		return 0, err
	}

	err = conn.QueryRow(
		ctx, "SELECT sum(octet_length(value))::float8 / sum(pg_column_size(value)) FROM sample",
	).Scan(&ratio)
	return ratio, err
}

// generator makes text word by word. Words have the frequencies of a natural language: the n-th most
// frequent word is about n times rarer than the first. Topics repeat as in real texts: for some
// paragraphs the rare words come from the few words of the current topic.
type generator struct {
	*rand.Rand
	words []string
	zipf  *rand.Zipf
	topic []string
	lines int
}

// common are the most frequent words. The others are made of syllables; rarer words are longer.
const common = "the of and to a in is that for it as was with be by on not he this are or his from at which but " +
	"have an had they you were their one all we can her has there been if more when will would who so no out up into " +
	"than them then its only some could time these two may first do any like my now over such our file error value " +
	"result request function call data server return test user string list type read write index query table row step " +
	"plan agent tool model token cache path name key id list check build run log line code change record state start " +
	"end failed found missing open close"

func newGenerator(seed uint64) *generator {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &generator{Rand: r, zipf: rand.NewZipf(r, 1.07, 2.7, vocabulary-1)}
	g.words = strings.Fields(common)

	onsets := strings.Fields("b c d f g h l m n p r s t v w br ch cl cr dr gr pl pr qu sh st th tr str")
	nuclei := strings.Fields("a e i o u ea ou ai ee io")
	codas := strings.Fields("n r s t l d nd nt st ng ck ss rm ct _ _ _ _")
	pick := func(parts []string) string { return strings.TrimSuffix(parts[r.IntN(len(parts))], "_") }
	for seen := map[string]bool{}; len(g.words) < vocabulary; {
		w := ""
		for range 1 + r.IntN(2) + len(g.words)/6_400 {
			w += pick(onsets) + pick(nuclei) + pick(codas)
		}
		if len(g.words)%97 == 0 {
			w += "é" // not all text is ASCII
		}
		if !seen[w] {
			seen[w] = true
			g.words = append(g.words, w)
		}
	}

	g.changeTopic()
	return g
}

func (g *generator) word() string {
	if n := g.zipf.Uint64(); n < frequent || g.IntN(2) == 0 {
		return g.words[n]
	}
	return g.rare()
}

// rare returns a word of the current topic.
func (g *generator) rare() string { return g.topic[int(g.Float64()*g.Float64()*float64(len(g.topic)))] }

func (g *generator) changeTopic() {
	g.topic = g.topic[:0]
	for range 80 {
		g.topic = append(g.topic, g.words[frequent+g.IntN(vocabulary-frequent)])
	}
}

func (g *generator) fill(size int, kinds ...func(*strings.Builder)) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(g.next(kinds[g.IntN(len(kinds))]))
		b.WriteByte('\n')
	}
	return b.String()
}

// next returns a text of a kind, mostly about the same topic as the last one.
func (g *generator) next(kind func(*strings.Builder)) string {
	if g.IntN(10) == 0 {
		g.changeTopic()
	}
	var b strings.Builder
	kind(&b)
	return b.String()
}

func (g *generator) times(n int, kind func(*strings.Builder)) (all []string) {
	for range n {
		g.changeTopic()
		var b strings.Builder
		kind(&b)
		all = append(all, b.String())
	}
	return all
}

func (g *generator) sentence(b *strings.Builder) {
	for i := range 5 + g.IntN(14) {
		w := g.word()
		switch {
		case i == 0:
			w = strings.ToUpper(w[:1]) + w[1:]
		case g.IntN(11) == 0:
			b.WriteString(", ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	b.WriteByte('.')
}

func (g *generator) paragraph(b *strings.Builder) {
	for range 3 + g.IntN(5) {
		g.sentence(b)
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
}

// remark is a request or an answer in few words, with the places and ids that it is about.
func (g *generator) remark(b *strings.Builder) {
	for range 2 {
		g.sentence(b)
		fmt.Fprintf(b, " See %s:%d, %016x. ", g.path(), g.IntN(2_000), g.Uint64())
	}
}

func (g *generator) bullets(b *strings.Builder) {
	for range 3 + g.IntN(5) {
		b.WriteString("- ")
		g.sentence(b)
		b.WriteByte('\n')
	}
}

func (g *generator) path() string {
	return fmt.Sprintf("%s/%s/%s.%s", g.rare(), g.rare(), g.rare(), []string{"go", "py", "ts", "md", "sql"}[g.IntN(5)])
}

// object writes JSON like the arguments and results of tools.
func (g *generator) object(b *strings.Builder) {
	b.WriteByte('{')
	for i, key := range []string{"path", "query", "limit", "offset", "recursive", "comment", "items"} {
		if i > 0 && g.IntN(3) == 0 {
			continue
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q: ", key)
		switch key {
		case "path":
			fmt.Fprintf(b, "%q", g.path())
		case "limit", "offset":
			fmt.Fprint(b, g.IntN(5_000))
		case "recursive":
			fmt.Fprint(b, g.IntN(2) == 0)
		case "items":
			fmt.Fprintf(b, `[{"id": %d, "name": %q, "score": %.3f}, {"id": %d, "name": %q, "score": %.3f}]`,
				g.IntN(1e6), g.rare(), g.Float64(), g.IntN(1e6), g.rare(), g.Float64())
		default:
			b.WriteByte('"')
			g.sentence(b)
			b.WriteByte('"')
		}
	}
	b.WriteByte('}')
}

func (g *generator) logs(b *strings.Builder) {
	for range 4 + g.IntN(12) {
		g.lines += 1 + g.IntN(2_000)
		fmt.Fprintf(b, "2026-03-%02dT%02d:%02d:%02d.%03dZ %s %s: %s %s id=%d took=%dms\n",
			1+g.lines/86_400_000%28, g.lines/3_600_000%24, g.lines/60_000%60, g.lines/1_000%60, g.lines%1_000,
			[]string{"INFO", "INFO", "INFO", "WARN", "ERROR"}[g.IntN(5)], g.rare(), g.word(), g.word(), g.IntN(1e6), g.IntN(900))
	}
}

func (g *generator) code(b *strings.Builder) {
	fmt.Fprintf(b, "// %s ", g.rare())
	g.sentence(b)
	fmt.Fprintf(b, "\nfunc %s(ctx context.Context, %s string) (%s int, err error) {\n", g.rare(), g.word(), g.word())
	for range 3 + g.IntN(6) {
		v := g.word()
		fmt.Fprintf(b, "\t%s, err := %s.%s(ctx, %q, %d)\n\tif err != nil {\n\t\treturn 0, fmt.Errorf(%q, err)\n\t}\n",
			v, g.rare(), g.rare(), g.rare(), g.IntN(100), g.word()+" "+g.word()+": %w")
	}
	fmt.Fprintf(b, "\treturn %d, nil\n}\n", g.IntN(100))
}
