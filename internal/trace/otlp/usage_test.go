package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/record"
)

// counts returns the tokens of a call: input, read from a cache, written to it, those of them for an hour, output,
// reasoning.
func counts(c *record.ThinkAct) string {
	var b strings.Builder
	for _, n := range []*int64{
		c.InputTokens, c.CacheReadInputTokens, c.CacheCreationInputTokens, c.CacheCreation1hInputTokens, c.OutputTokens,
		c.ReasoningTokens,
	} {
		if n == nil {
			b.WriteString(" -")
		} else {
			fmt.Fprintf(&b, " %d", *n)
		}
	}
	return strings.TrimSpace(b.String())
}

// TestTokens checks how the tokens of a call are counted, by whatever names they are sent.
func TestTokens(t *testing.T) {
	t.Parallel()
	const chat, none = `"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 50, `, " 50 -"

	usage := func(names ...string) string {
		return chat + strings.Join(names, ", ")
	}
	langfuse := func(details string) string {
		return `"langfuse.observation.type": "generation", "langfuse.observation.usage_details": ` + quoted(t, details)
	}
	litellm := func(object string) string {
		return `"litellm.call_id": "x", "gen_ai.operation.name": "chat", "metadata.usage_object": ` + quoted(t, object)
	}
	vercel := func(attributes string) string { return `"ai.operationId": "ai.generateText.doGenerate", ` + attributes }

	for name, c := range map[string]struct{ attributes, want string }{
		"cached":           {usage(`"gen_ai.usage.cache_read.input_tokens": 600`), "1000 600 - -" + none},
		"cached, Langfuse": {usage(`"gen_ai.usage.input_cached_tokens": 600`), "1000 600 - -" + none},
		"cached, Codex":    {usage(`"gen_ai.usage.cached_input_tokens": 600`), "1000 600 - -" + none},
		"cached, OpenAI": {
			usage(`"gen_ai.usage.prompt_tokens_details.cached_tokens": 600`), "1000 600 - -" + none,
		},
		"cached, twice": {
			usage(`"gen_ai.usage.cache_read.input_tokens": 600`, `"gen_ai.usage.cached_tokens": 600`), "1000 600 - -" + none,
		},
		"not cached": {
			usage(`"gen_ai.usage.cache_miss_tokens": 400`, `"gen_ai.usage.uncached_tokens": 400`), "1000 - - -" + none,
		},
		"cached audio": {
			usage(`"gen_ai.usage.input_cached_audio_tokens": 7`, `"gen_ai.usage.input_cached_tokens": 600`),
			"1000 600 - -" + none,
		},
		"written": {usage(`"gen_ai.usage.cache_creation.input_tokens": 300`), "1000 - 300 -" + none},
		"written for an hour": {
			usage(`"gen_ai.usage.cache_creation.input_tokens": 300`,
				`"gen_ai.usage.cache_creation.ephemeral_1h_input_tokens": 200`), "1000 - 300 200" + none,
		},
		"written for an hour only": {usage(`"gen_ai.usage.cache_creation_1h_input_tokens": 200`), "1000 - 200 200" + none},
		"written for both": {
			usage(`"gen_ai.usage.cache_creation.ephemeral_5m_input_tokens": 100`,
				`"gen_ai.usage.cache_creation.ephemeral_1h_input_tokens": 200`), "1000 - 300 200" + none,
		},
		"written, details": {
			usage(`"gen_ai.usage.details.cache_creation_input_tokens": 300`,
				`"gen_ai.usage.details.ephemeral_1h_input_tokens": 300`), "1000 - 300 300" + none,
		},
		"written beside the input": {
			`"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 50, "gen_ai.usage.cache_creation.input_tokens": 300`, "310 - 300 -" + none,
		},
		"reasoning": {usage(`"gen_ai.usage.output_reasoning_tokens": 20`), "1000 - - - 50 20"},
		"OpenLLMetry": {
			`"llm.request.type": "chat", "llm.usage.prompt_tokens": 1000, "llm.usage.completion_tokens": 50, "llm.usage.cache_read_input_tokens": 600`, "1000 600 - -" + none,
		},
		"OpenInference": {
			`"openinference.span.kind": "LLM", "llm.token_count.prompt": 1000, "llm.token_count.completion": 50, "llm.token_count.prompt_details.cache_read": 600, "llm.token_count.prompt_details.cache_write": 300, "llm.token_count.prompt_details.cache_write_1h": 200`, "1000 600 300 200" + none,
		},
		"Langfuse": {
			langfuse(`{"input": 400, "input_cached_tokens": 600, "output": 50}`), "1000 600 - -" + none,
		},
		"Langfuse, cache_read": {
			langfuse(`{"input": 400, "input_cache_read": 600, "output": 50}`), "1000 600 - -" + none,
		},
		"Langfuse, both lifetimes": {
			langfuse(
				`{"input": 100, "input_cached_tokens": 600, "input_cache_creation_5m": 100, "input_cache_creation_1h": 200, "output": 50, "total": 1050}`,
			), "1000 600 300 200" + none,
		},
		"Langfuse, an hour": {
			langfuse(`{"input": 800, "input_cache_creation_1h": 200, "output": 50}`), "1000 - 200 200" + none,
		},
		"Langfuse, the sum, too": {
			langfuse(
				`{"input": 700, "input_cache_creation": 300, "input_cache_creation_5m": 100, "input_cache_creation_1h": 200, "output": 50}`,
			), "1000 - 300 200" + none,
		},
		"Langfuse, 5m by Anthropic": {
			langfuse(`{"input": 700, "cache_creation_input_tokens": 100, "input_cache_creation_1h": 200, "output": 50}`),
			"1000 - 300 200" + none,
		},
		"Anthropic": {
			litellm(
				`{'input_tokens': 100, 'cache_read_input_tokens': 600, 'cache_creation_input_tokens': 300, 'cache_creation': {'ephemeral_5m_input_tokens': 100, 'ephemeral_1h_input_tokens': 200}, 'output_tokens': 50}`,
			), "1000 600 300 200" + none,
		},
		"Anthropic, parts only": {
			litellm(
				`{'input_tokens': 700, 'cache_creation': {'ephemeral_5m_input_tokens': 100, 'ephemeral_1h_input_tokens': 200}, 'output_tokens': 50}`,
			), "1000 - 300 200" + none,
		},
		"LiteLLM": {
			litellm(
				`{'prompt_tokens': 1000, 'completion_tokens': 50, 'total_tokens': 1050, 'cache_creation_input_tokens': 300, 'cache_read_input_tokens': 600, 'prompt_tokens_details': {'cached_tokens': 600, 'cache_creation_tokens': 300, 'cache_creation_token_details': {'ephemeral_5m_input_tokens': 100, 'ephemeral_1h_input_tokens': 200}}}`,
			), "1000 600 300 200" + none,
		},
		"LangChain": {
			litellm(
				`{'input_tokens': 1000, 'output_tokens': 50, 'total_tokens': 1050, 'input_token_details': {'cache_read': 600, 'cache_creation': 0, 'ephemeral_5m_input_tokens': 100, 'ephemeral_1h_input_tokens': 200}}`,
			), "1000 600 300 200" + none,
		},
		"Amazon Bedrock": {
			litellm(
				`{'inputTokens': 100, 'outputTokens': 50, 'totalTokens': 1050, 'cacheReadInputTokens': 600, 'cacheReadInputTokenCount': 600, 'cacheWriteInputTokens': 300, 'cacheWriteInputTokenCount': 300, 'cacheDetails': [{'ttl': '1h', 'inputTokens': 200}, {'ttl': '5m', 'inputTokens': 100}]}`,
			), "1000 600 300 200" + none,
		},
		"Gemini": {
			litellm(
				`{'promptTokenCount': 1000, 'candidatesTokenCount': 30, 'thoughtsTokenCount': 20, 'cachedContentTokenCount': 600, 'totalTokenCount': 1050}`,
			), "1000 600 - - 50 20",
		},
		"DeepSeek": {
			litellm(
				`{'prompt_tokens': 1000, 'completion_tokens': 50, 'total_tokens': 1050, 'prompt_cache_hit_tokens': 600, 'prompt_cache_miss_tokens': 400}`,
			), "1000 600 - -" + none,
		},
		"Moonshot": {
			litellm(`{'prompt_tokens': 1000, 'completion_tokens': 50, 'total_tokens': 1050, 'cached_tokens': 600}`),
			"1000 600 - -" + none,
		},
		"OpenAI": {
			litellm(
				`{'input_tokens': 1000, 'output_tokens': 50, 'total_tokens': 1050, 'input_tokens_details': {'cached_tokens': 600}, 'output_tokens_details': {'reasoning_tokens': 20}}`,
			), "1000 600 - - 50 20",
		},
		"the AI SDK's usage": {
			litellm(
				`{'inputTokens': 1000, 'outputTokens': 50, 'inputTokenDetails': {'noCacheTokens': 400, 'cacheReadTokens': 600}}`,
			), "1000 600 - -" + none,
		},
		"Vercel": {
			vercel(`"ai.usage.inputTokens": 1000, "ai.usage.outputTokens": 50, "ai.usage.cachedInputTokens": 600`),
			"1000 600 - -" + none,
		},
		"Vercel, details": {
			vercel(
				`"ai.usage.inputTokens": 1000, "ai.usage.outputTokens": 50, "ai.usage.inputTokenDetails.noCacheTokens": 100, "ai.usage.inputTokenDetails.cacheReadTokens": 600, "ai.usage.inputTokenDetails.cacheWriteTokens": 300`,
			), "1000 600 300 -" + none,
		},
		"Vercel, the provider's own": {
			vercel(`"ai.usage.inputTokens": 100, "ai.usage.outputTokens": 50, "ai.response.providerMetadata": ` + quoted(t,
				`{"anthropic": {"usage": {"input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 300, "cache_creation": {"ephemeral_1h_input_tokens": 300}}}}`)), "1000 600 300 300" + none,
		},
		"Claude Code": {
			`"span.type": "llm_request", "input_tokens": 100, "output_tokens": 50, "cache_read_tokens": 600, "cache_creation_tokens": 300, "cache_creation_1h_tokens": 300`, "1000 600 300 300" + none,
		},
	} {
		span := "chat m"
		if strings.HasPrefix(c.attributes, `"span.type"`) {
			span = "claude_code.llm_request"
		}

		r := sorted(project(t, made(t, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
			`{"id": "2", "parent": "1", "name": "`+span+`", "start": 10, "end": 20, "attributes": {`+
				strings.TrimSuffix(c.attributes, ", ")+`}}`)))
		if len(r.cycles) != 1 || counts(r.cycles[0]) != c.want {
			t.Errorf("%s: %d cycles, %s, want %s", name, len(r.cycles), counts(r.cycles[0]), c.want)
		}
	}
}

// TestAsides checks that an operation that generates no text is no model call, but that its cost counts.
func TestAsides(t *testing.T) {
	t.Parallel()
	const agent = `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90, "attributes": {"gen_ai.operation.name": "invoke_agent"}}`
	const model = `{"id": "9", "parent": "1", "name": "chat m", "start": 50, "end": 60, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}}`
	for name, attributes := range map[string]string{
		"embeddings e":           `"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e", "gen_ai.usage.input_tokens": 9`,
		"moderation m":           `"gen_ai.operation.name": "moderation", "gen_ai.request.model": "m"`,
		"Spring AI":              `"gen_ai.operation.name": "embedding", "gen_ai.request.model": "e"`,
		"OpenLIT, image":         `"gen_ai.operation.name": "image", "gen_ai.request.model": "e"`,
		"OpenLIT, audio":         `"gen_ai.operation.name": "audio", "gen_ai.request.model": "e"`,
		"image_generation":       `"gen_ai.operation.name": "image_generation", "gen_ai.request.model": "e"`,
		"transcription":          `"gen_ai.operation.name": "audio_transcription", "gen_ai.request.model": "whisper-1"`,
		"generateSpeech":         `"gen_ai.operation.name": "generateSpeech", "gen_ai.request.model": "tts-1"`,
		"text_to_speech":         `"gen_ai.operation.name": "text_to_speech", "gen_ai.request.model": "tts-1"`,
		"rerank":                 `"gen_ai.operation.name": "rerank", "gen_ai.request.model": "rerank-v3.5"`,
		"audio.transcriptions":   `"gen_ai.operation.name": "audio.transcriptions.create", "gen_ai.request.model": "w"`,
		"embed query":            `"gen_ai.operation.name": "embed_query", "gen_ai.request.model": "e"`,
		"count tokens":           `"gen_ai.operation.name": "acount_tokens", "gen_ai.request.model": "e"`,
		"an image's tokens":      `"gen_ai.operation.name": "image_edit", "gen_ai.usage.output_tokens": 4160`,
		"OpenLLMetry, rerank":    `"llm.request.type": "rerank", "gen_ai.request.model": "r"`,
		"OpenLLMetry, embedding": `"llm.request.type": "embedding", "gen_ai.request.model": "e"`,
		"LiteLLM":                `"litellm.call_id": "x", "gen_ai.operation.name": "aembedding", "gen_ai.request.model": "e"`,
		"LiteLLM, moderation":    `"litellm.call_id": "x", "llm.request.type": "amoderation", "gen_ai.request.model": "e"`,
		"OpenInference":          `"openinference.span.kind": "EMBEDDING", "embedding.model_name": "e"`,
		"OpenInference, rerank":  `"openinference.span.kind": "RERANKER", "reranker.model_name": "e"`,
		"Langfuse":               `"langfuse.observation.type": "embedding", "langfuse.observation.model.name": "e"`,
		"Langfuse, generation":   `"langfuse.observation.type": "generation", "gen_ai.operation.name": "moderation"`,
		"LangSmith":              `"langsmith.span.kind": "embedding"`,
		"MLflow":                 `"mlflow.spanType": "\"EMBEDDING\""`,
		"MLflow, rerank":         `"mlflow.spanType": "\"RERANKER\""`,
		"Vercel, embed":          `"ai.operationId": "ai.embedMany.doEmbed", "ai.model.id": "e"`,
		"Vercel, transcribe":     `"ai.operationId": "ai.transcribe.doTranscribe", "ai.model.id": "e"`,
		"Vercel, speech":         `"ai.operationId": "ai.generateSpeech", "ai.model.id": "e"`,
		"Vercel, image":          `"ai.operationId": "ai.generateImage.doGenerate", "ai.model.id": "e"`,
		"embeddings by its name": `"gen_ai.request.model": "e"`,
		"tts_node":               `"gen_ai.request.model": "e", "gen_ai.provider.name": "x"`,
		"moderation":             `"gen_ai.request.model": "omni-moderation"`,
	} {
		spans := made(t, agent, model,
			`{"id": "2", "parent": "1", "name": "`+name+`", "start": 10, "end": 20, "attributes": {"gen_ai.usage.cost": 0.02, `+
				attributes+`}}`)
		r := sorted(project(t, spans))

		var models []string
		cost := 0.0
		for _, c := range r.cycles {
			if c.ThinkStartTime != nil || c.ModelName != nil || c.InputTokens != nil {
				models = append(models, deref(c.ModelName))
			}
			if c.CostUSD != nil {
				cost += *c.CostUSD
			}
		}

		if len(models) != 1 || models[0] != "m" || cost != 0.02 || len(r.cycles) != 2 {
			t.Errorf("%s: model calls %q, cost %v, %d cycles", name, models, cost, len(r.cycles))
		}
		anyOrder(t, spans)
	}
}

// TestNamesOfModelCalls checks that a word such as image or classify in a name takes away no call of a model that
// generated a text.
func TestNamesOfModelCalls(t *testing.T) {
	t.Parallel()
	const agent = `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 9000,
		"attributes": {"gen_ai.operation.name": "invoke_agent"}}`
	check := func(name, attributes string) {
		spans := made(t, agent, `{"id": "2", "parent": "1", "name": "`+name+`", "start": 1000, "end": 5000, "attributes": {
			"gen_ai.usage.input_tokens": 90, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cost": 0.02`+attributes+`}}`)
		r := sorted(project(t, spans))
		if len(r.cycles) != 1 {
			t.Errorf("%s %s: %d cycles", name, attributes, len(r.cycles))
			return
		}

		c := r.cycles[0]
		switch {
		case deref(c.ModelName) != "m", c.InputTokens == nil, c.OutputTokens == nil, c.CostUSD == nil:
			t.Errorf("%s %s: model %q, tokens %v and %v, cost %v", name, attributes,
				deref(c.ModelName), c.InputTokens, c.OutputTokens, c.CostUSD)
		case *c.InputTokens != 90 || *c.OutputTokens != 7 || *c.CostUSD != 0.02:
			t.Errorf("%s %s: tokens %d and %d, cost %v", name, attributes, *c.InputTokens, *c.OutputTokens, *c.CostUSD)
		}
		anyOrder(t, spans)
	}

	const model = `, "gen_ai.request.model": "m"`
	for _, name := range []string{
		"classify ticket", "image_analyst.llm", "video_summary", "speech_writer", "answerAudio", "embedded_helper",
		"ranking.judge", "moderator",
	} {
		check(name, model)
	}

	for _, operation := range []string{
		"chat_with_image", "classify_intent", "image_captioning", "audio.chat", "video_chat", "speechWriter",
		"rank_and_answer", "embed_and_answer",
	} {
		check("x", model+`, "gen_ai.operation.name": "`+operation+`"`)
		check("x", model+`, "llm.request.type": "`+operation+`"`)
	}
}

// TestAsidesCost checks that the cost of such an operation counts once, with the step that it is for.
func TestAsidesCost(t *testing.T) {
	t.Parallel()
	span := func(id, parent int, start int, attributes string) string {
		return fmt.Sprintf(`{"id": "%d", "parent": "%d", "name": "x", "start": %d, "end": %d, "attributes": {%s}}`, id,
			parent, start, start+5, attributes)
	}

	const agent = `"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"`
	const chat = `"gen_ai.operation.name": "chat"`
	const tool = `"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"`
	const turn = `, "gen_ai.usage.input_tokens": 90, "gen_ai.usage.output_tokens": 7`
	const priced = `, "gen_ai.usage.cost": 0.5`
	embeds := func(cost string) string { return `"gen_ai.operation.name": "embeddings", "gen_ai.usage.cost": ` + cost }
	top := func(attributes string) string {
		return `{"id": "1", "name": "top", "start": 1, "end": 900, "attributes": {` + attributes + `}}`
	}

	for name, c := range map[string]struct {
		spans []string
		want  string // costs of the steps, by their agents
	}{
		"of two clients": {
			[]string{top(agent), span(2, 1, 50, chat), span(3, 1, 10, embeds("0.02")), span(4, 3, 11, embeds("0.02"))}, "a 0.02",
		},
		"of the inner one": {
			[]string{
				top(agent), span(2, 1, 50, chat), span(3, 1, 10, `"gen_ai.operation.name": "embeddings"`),
				span(4, 3, 11, embeds("0.02")),
			}, "a 0.02",
		},
		"several": {
			[]string{top(agent), span(2, 1, 50, chat), span(3, 1, 10, embeds("0.02")), span(4, 1, 20, embeds("0.03"))}, "a 0.05",
		},
		"in a tool": {
			[]string{top(agent), span(2, 1, 50, chat), span(3, 1, 60, tool), span(4, 3, 61, embeds("0.02"))}, "a 0.02",
		},
		"without a model": {[]string{top(agent), span(3, 1, 10, embeds("0.02"))}, "a 0.02"},
		"around a step": {
			[]string{
				top(`"gen_ai.operation.name": "invoke_workflow"`), span(2, 1, 5, embeds("0.02")), span(3, 1, 50, agent),
				span(4, 3, 51, chat),
			}, "a 0.02",
		},
		"a free one": {[]string{top(agent), span(2, 1, 50, chat), span(3, 1, 10, embeds("0"))}, "a 0"},
		"HTTP in between": {[]string{top(agent), span(2, 1, 50, chat), span(3, 1, 10, embeds("0.02")),
			span(4, 3, 11, `"http.request.method": "POST"`), span(5, 4, 12, embeds("0.02"))}, "a 0.02"},
		"usage of a turn": {[]string{top(agent + turn), span(3, 1, 10, embeds("0.02"))}, "a 0.02"},
		"cost of a turn":  {[]string{top(agent + turn + priced), span(3, 1, 10, embeds("0.02"))}, "a 0.52"},
		"a turn's tool": {[]string{top(agent + turn + priced), span(2, 1, 60, tool),
			span(3, 1, 10, embeds("0.02"))}, "a 0.52"},
		"only a cost": {[]string{top(agent + priced), span(2, 1, 60, tool),
			span(3, 1, 10, embeds("0.02"))}, "a 0.52"},
		"a cost alone": {[]string{top(agent + priced), span(3, 1, 10, embeds("0.02"))}, "a 0.52"},
		"a chain's total": {
			[]string{
				top(agent), span(3, 1, 10, `"openinference.span.kind": "CHAIN", "llm.cost.total": 9`), span(2, 3, 50, chat),
			}, "",
		},
	} {
		spans := made(t, c.spans...)
		r := sorted(project(t, spans))
		costs := map[string]float64{}
		var got []string
		for _, cycle := range r.cycles {
			if cycle.CostUSD == nil {
				continue
			}

			if *cycle.CostUSD == 0.02 && cycle.InputTokens != nil {
				t.Errorf("%s: the cost of an embedding is in a cycle with the tokens of a turn", name)
			}
			for _, s := range r.steps {
				if s.StepID == cycle.StepID {
					costs[deref(s.AgentName)] += *cycle.CostUSD
				}
			}
		}

		for agent, cost := range costs {
			got = append(got, fmt.Sprintf("%s %.4g", agent, cost))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		anyOrder(t, spans)
	}
}

// TestAsidesOfATurn checks that an agent whose own span alone has the figures of its model calls has them in a cycle of
// its own, behind that of an operation that generates no text.
func TestAsidesOfATurn(t *testing.T) {
	t.Parallel()
	spans := made(t, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90, "attributes": {
			"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 90}}`,
		`{"id": "2", "parent": "1", "name": "embeddings e", "start": 10, "end": 20, "attributes": {
			"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e", "gen_ai.usage.cost": 0.02}}`)

	r := sorted(project(t, spans))
	if len(r.cycles) != 2 {
		t.Fatalf("%d cycles, want 2", len(r.cycles))
	}

	aside, turn := r.cycles[0], r.cycles[1]
	if aside.CostUSD == nil || *aside.CostUSD != 0.02 || aside.InputTokens != nil || aside.ThinkStartTime != nil ||
		aside.ModelName != nil {
		t.Errorf("the cycle of the embedding: %+v", aside)
	}
	if turn.InputTokens == nil || *turn.InputTokens != 90 || turn.CostUSD != nil || turn.ThinkStartTime == nil ||
		deref(turn.ModelName) != "m" || turn.ActionDescription != nil {
		t.Errorf("the cycle of the turn: %+v", turn)
	}
	anyOrder(t, spans)
}

// TestTimesOfAsides checks that the cycle of such operations lasts from the first to the last of them.
func TestTimesOfAsides(t *testing.T) {
	t.Parallel()
	span := func(id, parent, start, end int, attributes string) string {
		return fmt.Sprintf(`{"id": "%d", "parent": "%d", "name": "x", "start": %d, "end": %d, "attributes": {%s}}`,
			id, parent, start, end, attributes)
	}

	const tool = `"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"`
	const embeds = `"gen_ai.operation.name": "embeddings", "gen_ai.usage.cost": 0.02`
	top := func(operation string) string {
		return `{"id": "1", "name": "x", "start": 1, "end": 90,
			"attributes": {"gen_ai.operation.name": "` + operation + `"}}`
	}
	const chat = `"gen_ai.operation.name": "chat"`

	for name, c := range map[string]struct {
		spans       []string
		first, last int // of the spans, by their places
	}{
		"in parallel tools": {[]string{
			top("invoke_agent"), span(2, 1, 2, 5, chat), span(3, 1, 10, 60, tool), span(4, 3, 50, 55, embeds),
			span(5, 1, 20, 40, tool), span(6, 5, 21, 26, embeds)}, 5, 3},
		"beside a tool": {[]string{
			top("invoke_workflow"), span(2, 1, 30, 40, tool), span(3, 1, 50, 60, embeds),
			span(4, 1, 10, 20, embeds)}, 3, 2},
	} {
		spans := made(t, c.spans...)
		r := sorted(project(t, spans))
		aside := r.cycles[0]
		if aside.ActStartTime == nil || aside.ActStartTime.UnixNano() != spans[c.first].Start ||
			aside.ActEndTime == nil || aside.ActEndTime.UnixNano() != spans[c.last].End {
			t.Errorf("%s: from %v to %v", name, aside.ActStartTime, aside.ActEndTime)
		}
		anyOrder(t, spans)
	}
}
