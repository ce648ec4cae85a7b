package store

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modelName is what the name of a model, as it was sent, says about which model it is.
type modelName struct {
	// names are what the model may be called in a list of prices: as it was sent, then with less and less of what
	// only says where, by whom and in which version it is sold. The first one that has a price counts.
	names []string
	// maker is the provider whose model it is, if the name says so.
	maker string
	// bedrock says that it is sold at Amazon Bedrock, global that its calls may run in any region.
	bedrock, global bool
}

// readModelName reads the name of a model and of its provider. What it does not know stays part of the name, so a
// name that only contains that of a model is another one.
func readModelName(provider, sent string) modelName {
	m := modelName{names: []string{listed(sent)}}
	name := strings.ToLower(strings.TrimSpace(sent))
	m.bedrock = isBedrock(provider)

	if i := strings.Index(name, "arn:aws"); i >= 0 {
		if name = inARN(name[i:]); name == "" {
			return m
		}
		m.bedrock = true
	} else if name = m.inPath(name); name == "" {
		return m
	}
	m.add(name)

	if maker, rest, ok := strings.Cut(name, ":"); ok && makers[maker] != "" {
		m.maker, name = makers[maker], rest
		m.bedrock = m.bedrock || isBedrock(maker)
	}
	if found := bedrockID.FindStringSubmatch(name); found != nil {
		m.bedrock, m.global = true, found[1] == "global"
		m.maker, name = makers[found[2]], found[3]
	}
	m.add(name)

	tuned := ""
	if rest, ok := strings.CutPrefix(name, "ft:"); ok { // ft:BASE:organization:suffix:id
		name, _, _ = strings.Cut(rest, ":")
		tuned = "ft:"
		m.add(tuned + name)
	}

	for stripped := true; stripped; {
		stripped = false
		for _, suffix := range suffixes {
			if suffix.bedrock && !m.bedrock || suffix.of != "" && !strings.HasPrefix(name, suffix.of) {
				continue
			}
			if at := suffix.is.FindStringIndex(name); at != nil && at[0] > 0 {
				name, stripped = name[:at[0]], true
				m.add(tuned + name)
			}
		}
	}

	if also := alias(name); also != "" {
		m.add(tuned + also)
	}
	return m
}

func (m *modelName) add(name string) {
	if name = listed(name); name != "" && !slices.Contains(m.names, name) {
		m.names = append(m.names, name)
	}
}

// listed returns a name in the form in which names are compared: some write dots where others write dashes.
func listed(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), ".", "-")
}

// inPath returns the name of the model in a path, such as models/x, openrouter/vendor/x, or
// projects/p/locations/l/publishers/google/models/x. It returns "" if the path is that of a model of somebody's own.
func (m *modelName) inPath(path string) string {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	last := len(parts) - 1
	if i := slices.Index(parts, "deployments"); i >= 0 && i < last { // of Azure: .../deployments/x/chat/completions
		last = i + 1
	}

	for _, part := range parts[:last] {
		if ownModels[part] {
			return ""
		}
		m.bedrock = m.bedrock || isBedrock(part)
		if maker := makers[part]; maker != "" {
			m.maker = maker
		}
	}
	return parts[last]
}

// ownModels are the parts of paths below which models have names, and prices, of their own.
var ownModels = map[string]bool{
	"tunedmodels": true, "endpoints": true, "custom-model": true, "custom-models": true, "fine-tuned": true,
	"finetuned": true,
}

// inARN returns the name of the model in a resource of Amazon Bedrock, "" if it has none: an application's own
// profile, a custom model and provisioned throughput have ids of their own.
func inARN(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 || parts[2] != "bedrock" {
		return ""
	}

	kind, id, _ := strings.Cut(parts[5], "/")
	if kind != "foundation-model" && kind != "inference-profile" {
		return ""
	}
	return id
}

func isBedrock(provider string) bool {
	provider = strings.ToLower(provider)
	return strings.Contains(provider, "bedrock") || provider == "aws" || provider == "amazon"
}

// makers are the providers of the list by the names under which they, or who sells their models, stand before a
// model's name.
var makers = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "azure": "openai", "azure_openai": "openai", "azure_ai": "openai",
	"google": "gcp.gemini", "gemini": "gcp.gemini", "google-gla": "gcp.gemini", "google-vertex": "gcp.gemini",
	"google_genai": "gcp.gemini", "google_vertexai": "gcp.gemini", "vertex_ai": "gcp.gemini", "vertexai": "gcp.gemini",
	"gcp.gemini": "gcp.gemini", "gcp.vertex_ai": "gcp.gemini",
	"mistral": "mistral_ai", "mistralai": "mistral_ai", "mistral_ai": "mistral_ai",
	"deepseek": "deepseek", "deepseek-ai": "deepseek", "x-ai": "x_ai", "xai": "x_ai", "x_ai": "x_ai", "grok": "x_ai",
	"qwen": "alibaba", "alibaba": "alibaba", "dashscope": "alibaba", "moonshot": "moonshot", "moonshotai": "moonshot",
	"cohere": "cohere", "perplexity": "perplexity", "groq": "groq", "openrouter": "openrouter",
	"bedrock": "aws.bedrock", "bedrock_converse": "aws.bedrock", "aws.bedrock": "aws.bedrock", "amazon": "aws.bedrock",
	"meta": "meta", "ai21": "ai21", "nvidia": "nvidia", "writer": "writer", "minimax": "minimax", "zai": "zai",
	"z-ai": "zai",
}

// bedrockID is an id of Amazon Bedrock: the scope in which calls run, the maker and the model.
var bedrockID = regexp.MustCompile(`^(?:([a-z]{2}|global|apac|emea|amer|us-gov)\.)?` +
	`(anthropic|amazon|meta|mistral|cohere|ai21|deepseek|openai|qwen|google|nvidia|minimax|moonshot|moonshotai|writer|zai)` +
	`\.([a-z].*)$`)

// suffixes are what may follow the name of a model and does not change its price. bedrock ones are those of its
// ids, and of is what the names begin with to which one belongs.
var suffixes = []struct {
	is      *regexp.Regexp
	bedrock bool
	of      string
}{
	{is: regexp.MustCompile(`\[\d+[km]\]$`)},                                // with a long context
	{is: regexp.MustCompile(`:(?:\d+k|thinking|beta|latest)$`)},             // of Amazon Bedrock and OpenRouter
	{is: regexp.MustCompile(`:(?:stream)?(?:generatecontent|rawpredict)$`)}, // of addresses of Google
	{is: regexp.MustCompile(`-v\d+(?::\d+)+$`)},
	{is: regexp.MustCompile(`(?:-v\d+|(?:-\d)?:\d+)$`), bedrock: true},
	{is: regexp.MustCompile(`@[\w.-]*$`)},
	{is: regexp.MustCompile(`-20\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])$`)},
	{is: regexp.MustCompile(`-latest$`)},
	{is: regexp.MustCompile(`-0\d\d$`), of: "gemini-"},
	{is: regexp.MustCompile(`-(?:0[1-9]|1[0-2])-(?:20\d\d|0[1-9]|[12]\d|3[01])$`), of: "gemini-"},
}

var claude = regexp.MustCompile(`^claude-(\d)(?:[.-](\d{1,2}))?-([a-z]+)$`)

// alias returns another name of a model; "" if there is none.
func alias(name string) string {
	if m := claude.FindStringSubmatch(name); m != nil && m[1] >= "4" { // claude-4.5-sonnet
		return strings.TrimSuffix("claude-"+m[3]+"-"+m[1]+"-"+m[2], "-")
	}

	switch rest, isAzures := strings.CutPrefix(name, "gpt-35-"); {
	case isAzures:
		return "gpt-3.5-" + rest
	case strings.HasPrefix(name, "claude-") && strings.HasSuffix(name, "-4-0"):
		return strings.TrimSuffix(name, "-0")
	}
	return ""
}

var claudeVersion = regexp.MustCompile(`^claude-[a-z]+-(\d+)(?:-(\d{1,2}))?(?:-|$)`)

// isRegional reports whether Amazon Bedrock charges more for a model, by its name in the list, where calls stay in
// a region: models of Claude from 4.5 on.
func isRegional(model string) bool {
	m := claudeVersion.FindStringSubmatch(listed(model))
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1]) // digits
	minor, _ := strconv.Atoi(m[2]) // or nothing
	return major > 4 || major == 4 && minor >= 5
}
