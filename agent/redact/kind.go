package redact

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// kind finds one sort of text.
type kind struct {
	name string
	// hint is a quick look at a text: false means that the text has none of this kind. nil means that
	// find is quick itself.
	hint func(string) bool
	find func(text string) []span
	// open returns where the part of a text begins that may be one of this kind and goes on at end; all before from is
	// not. If the text is split, parts of it are texts of their own.
	open func(text string, from, end int, split bool) int
}

// span is a part of a text, in bytes.
type span struct{ start, end int }

// kinds are the named ones, in the order in which they are searched for: those that may contain
// others come first.
var kinds = []kind{
	expressionKind("private-key", contains("PRIVATE KEY-----"),
		`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	expressionKind("bearer-token", contains("earer", "EARER"), `(?i:\bbearer)\s+[A-Za-z0-9._~+/-]+=*`),
	expressionKind("jwt", contains("eyJ"), `\beyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	// The keys of OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, Google and Stripe.
	expressionKind("api-key", contains("sk-", "gh", "glpat-", "xox", "AKIA", "ASIA", "AIza", "k_live_", "k_test_"),
		`\b(?:sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,})`),
	amongKind("email", contains("@"), "._%+-@", letters|high, contains("@"),
		inRun(`[\pL\pN._%+-]+@(?:[\pL\pN](?:[\pL\pN-]*[\pL\pN])?\.)+\pL[\pL\pN-]*`)),
	amongKind("credit-card", nil, " -", 0, digits(13), cards),
	amongKind("phone", contains("+"), "+ ./-()", 0, digits(8), phones),
	amongKind("ip", nil, ":.abcdefABCDEF", 0, likeAddress, addresses),
}

// Kinds returns the names of the kinds.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

func contains(parts ...string) func(string) bool {
	return func(text string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
}

// digits returns a hint for texts with at least n digits.
func digits(n int) func(string) bool {
	return func(text string) bool {
		found := 0
		for i := 0; i < len(text) && found < n; i++ {
			if isDigit(text[i]) {
				found++
			}
		}
		return found >= n
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// expressionKind returns the kind of what an expression matches.
func expressionKind(name string, hint func(string) bool, pattern string) kind {
	return kind{name: name, hint: hint, find: matches(regexp.MustCompile(pattern)), open: openMatch(pattern)}
}

// amongKind returns the kind of what find finds in runs, as [among] does.
func amongKind(
	name string, hint func(string) bool, listed string, more int, promising func(string) bool, find func(string,
		span) []span,
) kind {
	in := inRuns(listed, more)
	return kind{name: name, hint: hint, find: among(in, promising, find), open: openRun(in)}
}

// matches returns where an expression matches. Empty matches do not count.
func matches(e *regexp.Regexp) func(string) []span {
	return func(text string) (found []span) {
		for _, at := range e.FindAllStringIndex(text, -1) {
			if at[0] < at[1] {
				found = append(found, span{at[0], at[1]})
			}
		}
		return found
	}
}

// More bytes of a run, besides digits and those that are listed.
const (
	letters = 1 << iota // of ASCII
	high                // of all other characters
)

// among returns where find finds something in the runs of a text: the longest parts whose bytes are in. Only runs that
// are promising are looked at closely.
func among(
	in *[256]bool, promising func(run string) bool, find func(text string, run span) []span,
) func(string) []span {
	return func(text string) (found []span) {
		for i := 0; i < len(text); i++ {
			if !in[text[i]] {
				continue
			}

			run := span{i, i + 1}
			for run.end < len(text) && in[text[run.end]] {
				run.end++
			}
			if i = run.end; promising(text[run.start:run.end]) {
				found = append(found, find(text, run)...)
			}
		}
		return found
	}
}

// inRuns returns which bytes are in runs.
func inRuns(listed string, more int) *[256]bool {
	in := new([256]bool)
	for b := range in {
		c := byte(b)
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		in[b] = isDigit(c) || strings.IndexByte(listed, c) >= 0 || letter && more&letters != 0 || c >= 0x80 && more&high != 0
	}
	return in
}

func inRun(pattern string) func(string, span) []span {
	e := regexp.MustCompile(pattern)
	return func(text string, run span) []span { return within(e, text, run) }
}

// within returns where an expression matches within a part of a text.
func within(e *regexp.Regexp, text string, part span) (found []span) {
	for _, at := range e.FindAllStringIndex(text[part.start:part.end], -1) {
		found = append(found, span{part.start + at[0], part.start + at[1]})
	}
	return found
}

var numbers = regexp.MustCompile(`[0-9]+(?:[ -][0-9]+)*`)

// cards finds numbers of payment cards: 13 to 19 digits, maybe in groups with a space or "-" between
// them, whose last digit is the check digit of the others.
func cards(text string, run span) (found []span) {
	for _, n := range within(numbers, text, run) {
		for start := n.start; start < n.end; {
			if end := cardEnd(text[:n.end], start); end > 0 {
				found = append(found, span{start, end})
				start = end
			}
			// Go on with the next group.
			for start < n.end && isDigit(text[start]) {
				start++
			}
			start++
		}
	}
	return found
}

// cardEnd returns where the card number ends whose first digit is at start, or 0. It ends where a group
// does; the longest number counts.
func cardEnd(text string, start int) (end int) {
	const shortest, longest = 13, 19

	// The check sum doubles every second digit, from the last but one: both ways to begin are summed.
	var sums [2]int
	count := 0
	for i := start; i < len(text) && count < longest; i++ {
		if !isDigit(text[i]) {
			continue
		}

		d := int(text[i] - '0')
		doubled := 2*d/10 + 2*d%10
		if count++; count%2 == 0 {
			sums[0], sums[1] = sums[0]+d, sums[1]+doubled
		} else {
			sums[0], sums[1] = sums[0]+doubled, sums[1]+d
		}

		last := i+1 == len(text) || !isDigit(text[i+1])
		if last && count >= shortest && sums[count%2]%10 == 0 {
			end = i + 1
		}
	}
	return end
}

var international = regexp.MustCompile(`\+[1-9](?:[ ./-]?(?:\([0-9]{1,5}\)|[0-9]))*`)

// phones finds phone numbers in the international form: "+" and 8 to 15 digits, maybe in groups.
func phones(text string, run span) (found []span) {
	for _, s := range within(international, text, run) {
		count := 0
		for i := s.start; i < s.end; i++ {
			if isDigit(text[i]) {
				count++
			}
		}

		if 8 <= count && count <= 15 && (s.start == 0 || !word(text[s.start-1])) &&
			(s.end == len(text) || !word(text[s.end])) {
			found = append(found, s)
		}
	}
	return found
}

func word(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

var (
	dotted = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)+`)
	colons = regexp.MustCompile(`[0-9A-Fa-f:]*:[0-9A-Fa-f:]*[0-9A-Fa-f](?:\.[0-9]+)*|[0-9A-Fa-f:]+::`)
)

// likeAddress reports whether a run may have an IP address.
func likeAddress(run string) bool {
	return len(run) > 2 && (strings.Count(run, ".") > 2 || strings.Count(run, ":") > 1)
}

// addresses finds IP addresses of version 4 and 6.
func addresses(text string, run span) (found []span) {
	after := run.start
	for _, s := range within(colons, text, run) {
		// A single colon before it belongs to the sentence.
		if text[s.start] == ':' && !strings.HasPrefix(text[s.start:], "::") {
			s.start++
		}

		if isAddress(text, s) {
			found = append(found, dottedOnes(text, span{after, s.start})...)
			found = append(found, s)
			after = s.end
		}
	}
	return append(found, dottedOnes(text, span{after, run.end})...)
}

// dottedOnes finds addresses of version 4 within a part of a text.
func dottedOnes(text string, part span) (found []span) {
	for _, s := range within(dotted, text, part) {
		if isAddress(text, s) {
			found = append(found, s)
		}
	}
	return found
}

func isAddress(text string, s span) bool {
	const longest = 45 // bytes of an address of version 6 that ends in one of version 4
	if s.end-s.start > longest || s.start > 0 && word(text[s.start-1]) || s.end < len(text) && word(text[s.end]) {
		return false
	}

	part := text[s.start:s.end]
	_, err := netip.ParseAddr(part)
	return err == nil && strings.ContainsAny(part, "0123456789")
}
