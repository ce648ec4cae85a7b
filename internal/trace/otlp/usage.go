package otlp

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// Usage counts tokens. Input includes what was read from and written to a cache, CacheWrite what was written for an
// hour, Output includes Reasoning. Total is what the source says, and only serves to tell what the others include.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, CacheWrite1h, Reasoning, Total *int64
	write5m                                                              *int64 // what was written for five minutes
}

// known reports whether anything was counted.
func (u *Usage) known() bool { return u.Input != nil || u.Output != nil }

// fill takes all counts of another source or none, because counts of two sources do not match. Only
// parts of equal counts do.
func (u *Usage) fill(from Usage) {
	if !u.known() {
		*u = from
		return
	}
	u.fillParts(from)
}

// fillParts takes the parts of counts that another source has, too.
func (u *Usage) fillParts(from Usage) {
	if equal(u.Input, from.Input) {
		u.CacheRead, u.CacheWrite = cmp.Or(u.CacheRead, from.CacheRead), cmp.Or(u.CacheWrite, from.CacheWrite)
		u.CacheWrite1h = cmp.Or(u.CacheWrite1h, from.CacheWrite1h)
	}
	if equal(u.Output, from.Output) {
		u.Reasoning = cmp.Or(u.Reasoning, from.Reasoning)
	}
}

// correct prefers the counts of a source that is nearer to the provider.
func (u *Usage) correct(from Usage) {
	if from.Input != nil && from.Output != nil {
		before := *u
		*u = from
		u.fillParts(before)
	}
}

// addCache adds the tokens of the cache to the input, for conventions that leave them out.
func (u *Usage) addCache() {
	if u.Input != nil {
		u.Input = new(*u.Input + u.cached())
	}
}

func (u *Usage) addReasoning() {
	if u.Output != nil {
		u.Output = new(*u.Output + optional.Value(u.Reasoning))
	}
}

// complete adds parts that a count left out: the total tells, or a cache that is more than the input.
func (u *Usage) complete() {
	cached, reasoning := u.cached(), optional.Value(u.Reasoning)
	if u.Total != nil && u.Input != nil && u.Output != nil {
		switch *u.Total - *u.Input - *u.Output {
		case 0:
			return
		case reasoning:
			u.addReasoning()
			return
		case cached:
			u.addCache()
			return
		case cached + reasoning:
			u.addCache()
			u.addReasoning()
			return
		}
	}

	if u.Input != nil && cached > *u.Input {
		u.addCache()
	}
}

func (u *Usage) cached() int64 { return optional.Value(u.CacheRead) + optional.Value(u.CacheWrite) }

func equal(a, b *int64) bool { return a != nil && b != nil && *a == *b }

// The names of counts in the usage objects of providers and frameworks.
var (
	inputNames = []string{
		"input_tokens", "prompt_tokens", "input", "inputTokens", "promptTokens", "prompt_token_count", "promptTokenCount",
		"input_token_count", "inputTokenCount",
	}
	outputNames = []string{"output_tokens", "completion_tokens", "output", "outputTokens", "completionTokens",
		"candidates_token_count", "candidatesTokenCount",
		"response_token_count", "responseTokenCount", "generated_token_count", "outputTokenCount"}
	totalNames = []string{"total_tokens", "total", "totalTokens", "total_token_count", "totalTokenCount"}
)

// readUsage reads the usage object of a provider or a framework. Parts in an object of details are
// within their count. Parts beside a count are not (Anthropic's cache, Gemini's thoughts, the
// input_* and output_* of Langfuse), unless the total shows that they are.
func readUsage(object string) (u Usage) {
	var within, extra, lifetimes Usage
	var moreInput, moreOutput int64
	apart := false
	for key, value := range members(object) {
		switch lower := strings.ToLower(key); {
		case strings.HasPrefix(lower, "cache") && (value[0] == '{' || value[0] == '['): // how long what is written is kept
			lifetimes.readLifetimes(value)
			continue
		case value[0] == '{':
			if strings.HasSuffix(lower, "details") {
				within.readDetails(value)
			}
			continue
		}

		n := count(text(value))
		switch {
		case n == nil:
		case slices.Contains(inputNames, key):
			u.Input = cmp.Or(u.Input, n)
		case slices.Contains(outputNames, key):
			u.Output = cmp.Or(u.Output, n)
		case slices.Contains(totalNames, key):
			u.Total = cmp.Or(u.Total, n)
		case strings.Contains(key, "priority"): // a subset
		case key == "cache_read_input_tokens", key == "cacheReadInputTokens", key == "cacheReadInputTokenCount",
			key == "cache_creation_input_tokens",
			key == "cache_write_input_tokens", key == "cacheWriteInputTokens", key == "cacheWriteInputTokenCount",
			strings.HasPrefix(key, "input_"):
			if !extra.addPart(key, n) {
				moreInput += *n
			}
			// Langfuse counts each part by itself, also where the one for five minutes has the name of both.
			apart = apart || strings.HasPrefix(key, "input_")
		case strings.HasPrefix(key, "tool_use_prompt_token"), strings.HasPrefix(key, "toolUsePromptToken"):
			moreInput += *n
		case strings.HasPrefix(key, "thoughts"), strings.HasPrefix(key, "output_"):
			if !extra.addPart(key, n) {
				moreOutput += *n
			}
		case strings.HasPrefix(key, "cache_creation_"), strings.HasPrefix(key, "ephemeral_"): // subsets
			lifetimes.addPart(key, n)
		default:
			within.addPart(key, n)
		}
	}

	if apart && extra.CacheWrite != nil && extra.write5m == nil &&
		!strings.Contains(object, `"input_cache_creation"`) && !strings.Contains(object, `"input_cache_write"`) {
		extra.write5m, extra.CacheWrite = extra.CacheWrite, nil
	}
	within.addLifetimes()
	extra.addLifetimes()
	lifetimes.addLifetimes()

	// What is in the details, too, is not beside its count.
	if within.CacheRead == nil && within.CacheWrite == nil {
		moreInput += extra.cached()
		if extra.CacheWrite == nil {
			moreInput += optional.Value(lifetimes.CacheWrite)
		}
	}
	if within.Reasoning == nil {
		moreOutput += optional.Value(extra.Reasoning)
	}

	u.CacheRead, u.CacheWrite = cmp.Or(within.CacheRead, extra.CacheRead),
		cmp.Or(within.CacheWrite, extra.CacheWrite, lifetimes.CacheWrite)
	u.CacheWrite1h = cmp.Or(within.CacheWrite1h, extra.CacheWrite1h, lifetimes.CacheWrite1h)
	u.Reasoning = cmp.Or(within.Reasoning, extra.Reasoning)
	if u.Total == nil || optional.Value(u.Input)+optional.Value(u.Output) != *u.Total {
		if u.Input != nil {
			u.Input = new(*u.Input + moreInput)
		}
		if u.Output != nil || moreOutput > 0 {
			u.Output = new(optional.Value(u.Output) + moreOutput)
		}
	}
	u.Total = nil
	return u
}

// readDetails reads an object of details, which may have others in it.
func (u *Usage) readDetails(object string) {
	for name, part := range members(object) {
		if part[0] == '{' || part[0] == '[' {
			u.readLifetimes(part)
			continue
		}
		u.addPart(name, count(text(part)))
	}
}

// readLifetimes reads what was written to a cache by how long it is kept: an object of counts (Anthropic), or a list of
// counts with their time to live (Amazon Bedrock).
func (u *Usage) readLifetimes(value string) {
	for name, part := range members(value) {
		if lifetime(partName(name)) != "" {
			u.addPart(name, count(text(part)))
		}
	}

	for each := range elements(value) {
		if ttl := memberText(each, "ttl"); ttl != "" {
			u.addPart("write"+ttl, count(memberText(each, "inputTokens", "input_tokens")))
		}
	}
}

// addPart adds a part of a count, and reports whether it is one that is recorded. The first of several names of a part
// counts.
func (u *Usage) addPart(name string, n *int64) bool {
	name = partName(name)
	var to **int64
	switch {
	case n == nil:
		return false
	case lifetime(name) == "1h":
		to = &u.CacheWrite1h
	case lifetime(name) == "5m":
		to = &u.write5m
	case strings.Contains(name, "creation"), strings.Contains(name, "write"):
		to = &u.CacheWrite
	case strings.Contains(name, "nocache"), strings.Contains(name, "uncached"), strings.Contains(name, "noncached"),
		strings.Contains(name, "miss"):
		return false // the rest of the input
	case strings.Contains(name, "cache"):
		to = &u.CacheRead
	case strings.Contains(name, "reasoning"), strings.HasPrefix(name, "thoughts"), strings.HasPrefix(name, "thinking"):
		to = &u.Reasoning
	default:
		return false
	}

	*to = cmp.Or(*to, n)
	return true
}

// partName returns the name of a part without what names are written with in different ways.
func partName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// lifetime returns how long a cache keeps the part of a name: 5m, 1h, or "" if the name does not say it.
func lifetime(name string) string {
	if !strings.Contains(name, "creation") && !strings.Contains(name, "write") && !strings.Contains(name, "ephemeral") {
		return ""
	}

	switch {
	case strings.Contains(name, "1h"):
		return "1h"
	case strings.Contains(name, "5m"):
		return "5m"
	}
	return ""
}

// addLifetimes derives what was written to a cache from its parts by how long it is kept.
func (u *Usage) addLifetimes() {
	if u.write5m == nil && u.CacheWrite1h == nil {
		return
	}
	if parts := optional.Value(u.write5m) + optional.Value(u.CacheWrite1h); parts > optional.Value(u.CacheWrite) {
		u.CacheWrite = &parts
	}
	u.write5m = nil
}

// addParts adds the parts of counts among attributes, by names that begin with a prefix. What is known stays.
func (u *Usage) addParts(a Attributes, prefix string) {
	var parts Usage
	for _, attribute := range a.WithPrefix(prefix) {
		name := partName(attribute.Key[len(prefix):])
		ofKind := strings.Contains(name, "audio") || strings.Contains(name, "image") || strings.Contains(name, "text") ||
			strings.Contains(name, "video")
		if !ofKind && !strings.HasPrefix(name, "experimental") {
			parts.addPart(name, count(attribute.Value.Text))
		}
	}

	parts.addLifetimes()
	u.CacheRead, u.Reasoning = cmp.Or(u.CacheRead, parts.CacheRead), cmp.Or(u.Reasoning, parts.Reasoning)
	u.CacheWrite, u.CacheWrite1h = cmp.Or(u.CacheWrite, parts.CacheWrite), cmp.Or(u.CacheWrite1h, parts.CacheWrite1h)
}

// countOf returns the first of some attributes that is a count.
func countOf(a Attributes, keys ...string) *int64 {
	for _, key := range keys {
		if n := count(a.Get(key)); n != nil {
			return n
		}
	}
	return nil
}

// count reads a count in any notation. It returns nil if s is none, or is out of range.
func count(s string) *int64 {
	if s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || !(f >= 0 && f <= record.MaxCount) {
		return nil
	}
	return new(int64(f))
}

// money reads an amount of US dollars. It returns nil if s is none.
func money(s string) *float64 {
	if s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= record.MaxCount) {
		return nil
	}
	return &f
}

// sum returns the sum of the known amounts; nil if none is known.
func sum(amounts ...*float64) (total *float64) {
	for _, a := range amounts {
		switch {
		case total == nil:
			total = a
		case a != nil:
			total = new(*total + *a)
		}
	}
	return total
}
