package chat_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/view/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawn shows messages in lines.
func drawn(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s|", m.Role)
		if m.Name != "" {
			fmt.Fprintf(&b, "%s|", m.Name)
		}

		for _, p := range m.Parts {
			switch p.Kind {
			case chat.Text:
				fmt.Fprintf(&b, " %s", p.Text)
			case chat.Thought:
				fmt.Fprintf(&b, " (%s)", p.Text)
			case chat.Call:
				fmt.Fprintf(&b, " %s>%s %s", p.ID, p.Name, p.Text)
			case chat.Result:
				fmt.Fprintf(&b, " %s<%s %v %s", p.ID, p.Name, p.Failed, p.Text)
			case chat.Other:
				fmt.Fprintf(&b, " ?%s", p.Text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestRead: the forms of providers and frameworks become the same messages. What else they say stays.
func TestRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"a text":  {"Which figures?\n", "| Which figures?\n\n"},
		"nothing": {" \n", ""},
		"broken":  {`[{"role":"user"`, "| [{\"role\":\"user\"\n"},
		"other JSON": {
			`{"sql":"SELECT 1","big":12345678901234567890}`, "| ?{\"sql\":\"SELECT 1\",\"big\":12345678901234567890}\n",
		},
		"a pair": {`[["system","Be brief."],["human","Hi"]]`, "system| Be brief.\nuser| Hi\n"},
		"OpenAI": {
			`[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"n\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"3"}]`, "user| Hi\nassistant| c1>look {\"n\":1}\ntool| c1< false 3\n",
		},
		"OpenAI's pictures": {
			`[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:x"}}]}]`, "user| What is it? ?{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:x\"}}\n",
		},
		"OpenAI's responses": {
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]},{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"3"}]`, "user| Hi\n| c1>look {} c1< false 3\n",
		},
		"a choice": {
			`{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hi","refusal":null}}],"usage":{"total_tokens":3}}`, "assistant| Hi\n| ?{\"index\":0,\"finish_reason\":\"stop\"}\n| ?{\"usage\":{\"total_tokens\":3}}\n",
		},
		"Anthropic": {
			`[{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s="},{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"look","input":{"n":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}]`, "assistant| (Hm.) ?{\"signature\":\"s=\"} I look. t1>look {\"n\":1}\nuser| t1< true a\nb\n",
		},
		"blocks without role": {
			`[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"look","input":{}}]`,
			"| I look. t1>look {}\n",
		},
		"OpenTelemetry": {
			`[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"I look."},{"type":"tool_call","id":"a1","name":"look","arguments":{"n":1}}],"finish_reason":"stop"},{"role":"tool","parts":[{"type":"tool_call_response","id":"a1","response":"rain"}]}]`, "assistant| (Hm.) I look. a1>look {\"n\":1} ?{\"finish_reason\":\"stop\"}\ntool| a1< false rain\n",
		},
		"Gemini": {
			`{"model":"g","contents":[{"role":"model","parts":[{"function_call":{"name":"weather","args":{"city":"Oslo"}}}]},{"role":"user","parts":[{"function_response":{"name":"weather","response":{"result":"rain"}}}]}]}`, "model| >weather {\"city\":\"Oslo\"}\nuser| <weather false {\"result\":\"rain\"}\n| ?{\"model\":\"g\"}\n",
		},
		"Gemini's response": {
			`{"content":{"parts":[{"text":"Rain."}],"role":"model"},"finish_reason":"STOP"}`,
			"model| Rain.\n| ?{\"finish_reason\":\"STOP\"}\n",
		},
		"LangChain": {
			`{"messages":[[{"lc":1,"type":"constructor","id":["langchain","HumanMessage"],"kwargs":{"content":"Hi","type":"human"}}]]}`, "user| Hi\n| ?{\"lc\":1,\"type\":\"constructor\",\"id\":[\"langchain\",\"HumanMessage\"]}\n",
		},
		"LangChain's dicts": {
			`[{"type":"ai","data":{"content":"","additional_kwargs":{"tool_calls":[{"id":"c1","function":{"name":"look","arguments":"{}"}}]}}},{"type":"tool","data":{"content":"3","tool_call_id":"c1","name":"look","status":"error"}}]`, "assistant| c1>look {}\ntool| c1<look true 3\n",
		},
		"Strands": {
			`[{"role":"user","content":[{"toolResult":{"toolUseId":"t1","status":"success","content":[{"text":"done"}]}}]}]`,
			"user| t1< false done\n",
		},
		"Vercel": {
			`[{"role":"assistant","tool_calls":[{"toolCallId":"c1","toolName":"list","input":"{}"}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"list","output":{"type":"json","value":[1]}}]}]`, "assistant| c1>list {}\ntool| c1<list false {\"type\":\"json\",\"value\":[1]}\n",
		},
		"our runtime": {
			`[{"role":"system","parts":[{"text":"Be brief."}]},{"role":"assistant","parts":[{"text":"I look."},{"call":{"id":"c1","name":"look","arguments":"{}"}}],"provider":"openai","raw":{"x":1}},{"role":"tool","parts":[{"result":{"callId":"c1","name":"look","text":"boom","failed":true}}]}]`, "system| Be brief.\nassistant| I look. c1>look {} ?{\"provider\":\"openai\",\"raw\":{\"x\":1}}\ntool| c1<look true boom\n",
		},
		"an empty answer": {`[{"role":"tool","content":"","tool_call_id":"c1","name":"look"}]`, "tool| c1<look false \n"},
		"a call told twice": {
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{"n":1}}],"tool_calls":[{"id":"c1","name":"look","args":{"n": 1}}]}`, "assistant| c1>look {\"n\":1}\n",
		},
		"NaN": {
			`[{"role":"user","content":"NaN?","x":NaN},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"rate","arguments":{"n":-Infinity}}}]}]`, "user| NaN? ?{\"x\":NaN}\nassistant| c1>rate {\"n\":-Infinity}\n",
		},
		"not quite NaN": {
			`[{"role":"user","content":"a","x":NaNa}]`, "| [{\"role\":\"user\",\"content\":\"a\",\"x\":NaNa}]\n",
		},
		"cut": {
			`{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Which la\u67`, "system| Be brief.\nuser| Which la\n",
		},
		"cut, with a mark": {`[{"role":"user","content":"Which lamp?"},{"role":"assi... [truncated]`, "user| Which lamp?\n"},
		"cut arguments": {
			`[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"look","arguments":{"q":"la`,
			"assistant| c1>look {\"q\":\"la\n",
		},
		"like a list":    {`[1] Smith says`, "| [1] Smith says\n"},
		"cut texts":      {`["Buy milk", "Call`, "| [\"Buy milk\", \"Call\n"},
		"other cut JSON": {`{"sql":"SELECT`, "| {\"sql\":\"SELECT\n"},
		"calls as a text": {
			`[{"role":"assistant","content":"[{\"function\": {\"name\": \"look\", \"arguments\": \"{}\"}, \"id\": \"c1\", \"type\": \"function\"}]"}]`, "assistant| c1>look {}\n",
		},
		"calls alone": {`[{"id":"c1","function":{"name":"look","arguments":{"n":NaN}}}]`, "| c1>look {\"n\":NaN}\n"},
		"another list": {
			`[{"role":"assistant","content":"[{\"function\": {\"name\": \"look\"}}]"}]`,
			"assistant| [{\"function\": {\"name\": \"look\"}}]\n",
		},
		"a name twice": {`{"role":"user","content":"a","content":"b"}`, "user| a ?{\"content\":\"b\"}\n"},
	} {
		if got := drawn(chat.ParseMessages(tt.in)); got != tt.want {
			t.Errorf("%s is\n%swant\n%s", name, got, tt.want)
		}
	}
}

// textOf returns all that messages say.
func textOf(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Role + "\n" + m.Name + "\n")
		for _, p := range m.Parts {
			b.WriteString(p.Text + "\n" + p.ID + "\n" + p.Name + "\n")
			var v any
			if json.Unmarshal([]byte(p.Text), &v) == nil {
				each(v, "", func(_, s string) { b.WriteString(s + "\n") })
			}
		}
	}
	return b.String()
}

// each calls a function with the texts and numbers of a value, and the names of the members that hold them.
func each(v any, name string, say func(name, s string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			each(e, key, say)
		}
	case []any:
		for _, e := range v {
			each(e, name, say)
		}
	case string:
		say(name, v)
	case json.Number:
		say(name, v.String())
	}
}

// lost returns what a text says and its messages do not. The types of parts are said by their kinds.
func lost(in string) (all []string) {
	messages := textOf(chat.ParseMessages(in))
	d := json.NewDecoder(strings.NewReader(in))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		v = in
	}

	each(v, "", func(name, s string) {
		if name != "type" && name != "status" && !strings.Contains(messages, s) {
			all = append(all, name+": "+s)
		}
	})
	return all
}

// TestRecorded: of what instrumentations really send, nothing is lost, and messages are told from each other.
func TestRecorded(t *testing.T) {
	t.Parallel()
	texts, prompts := 0, 0
	err := filepath.WalkDir(filepath.Join("..", "..", "trace", "otlp", "testdata"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".golden" {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()

			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				var row struct{ ThinkInput, ThinkOutput string }
				if json.Unmarshal(lines.Bytes(), &row) != nil {
					continue // of another kind of line
				}

				for _, in := range []string{row.ThinkInput, row.ThinkOutput} {
					if in == "" {
						continue
					}
					texts++
					if lost := lost(in); len(lost) > 0 {
						t.Errorf("%s: %q is lost of %s", path, lost, in)
					}
				}

				if strings.Contains(row.ThinkInput, `"role"`) {
					prompts++
					if !slices.ContainsFunc(chat.ParseMessages(row.ThinkInput), func(m chat.Message) bool {
						return m.Role != "" && len(m.Parts) > 0 && m.Parts[0].Kind != chat.Other
					}) {
						t.Errorf("%s: no message is understood in %s", path, row.ThinkInput)
					}
				}
			}
			return lines.Err()
		})

	if err != nil || texts < 100 || prompts < 50 {
		t.Errorf("%d texts, %d prompts, %v", texts, prompts, err)
	}
}

// TestNothingLost: whatever JSON is made of the names that are known, all that it says is there.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"role", "content", "parts", "text", "name", "id", "function", "arguments", "args",
		"input", "tool_calls", "tool_call_id", "toolName", "messages", "message",
		"choices", "kwargs", "data", "additional_kwargs", "call", "result", "response", "output", "tool_use_id", "toolUse",
		"function_call", "thinking", "is_error", "other"})
	kinds := rapid.SampledFrom([]string{
		"text", "tool_use", "tool_result", "reasoning", "function", "human", "constructor", "message", "strange",
	})

	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			most := 4
			if depth > 4 {
				most = 1
			}
			switch rapid.IntRange(0, most).Draw(t, "what") {
			case 0:
				return rapid.StringMatching(`[a-z]{4,8}`).Draw(t, "text")
			case 1:
				return json.Number(fmt.Sprint(rapid.IntRange(1_000, 9_999).Draw(t, "number")))
			case 2:
				return rapid.SliceOfN(value(depth+1), 0, 3).Draw(t, "list")
			}

			v := rapid.MapOfN(names, value(depth+1), 0, 4).Draw(t, "object")
			if rapid.Bool().Draw(t, "typed") {
				v["type"] = kinds.Draw(t, "type")
			}
			return v
		})
	}

	rapid.Check(t, func(t *rapid.T) {
		in, err := json.Marshal(value(0).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		if lost := lost(string(in)); len(lost) > 0 {
			t.Errorf("%q is lost of %s: %s", lost, in, drawn(chat.ParseMessages(string(in))))
		}
	})
}

// TestBounds: no text takes long or breaks it, however it nests and repeats.
func TestBounds(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 90) + `"deep"` + strings.Repeat("]", 90)
	wrapped := strings.Repeat(`{"message":`, 90) + `"deep"` + strings.Repeat("}", 90)
	for _, in := range []string{deep, wrapped, `{"role":"user","content":` + deep + "}", strings.Repeat("[", 200_000)} {
		if lost := lost(in); len(lost) > 0 {
			t.Errorf("%q is lost of %.100s", lost, in)
		}
	}

	many := "[" + strings.Repeat(`{"role":"user","content":"a"},`, 5_000) + `{"role":"user","content":"last"}]`
	if got := chat.ParseMessages(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"a"},`, 5_000) +
		`"last"]}`); len(got) != 1 || len(got[0].Parts) > 1_001 || !strings.Contains(textOf(got), "last") {
		t.Errorf("%d messages", len(got))
	}
	if got := chat.ParseMessages(many); len(got) > 1_001 || !strings.Contains(textOf(got), "last") {
		t.Errorf("%d messages", len(got))
	}
}

// TestKnown: a message is known if it is among others, in whatever form, and each of them stands for one.
func TestKnown(t *testing.T) {
	t.Parallel()
	read := chat.ParseMessages(`[{"role":"assistant","tool_calls":[{"id":"c","name":"f","args":{"n": NaN}}]}]`)
	if got := chat.Known(read,
		chat.ParseMessages(`[{"role":"assistant","tool_calls":[{"id":"c","name":"f","args":{"n":NaN}}]}]`)); !got[0] {
		t.Error("C1: arguments with NaN are not known again")
	}

	before := chat.ParseMessages(`[{"role":"system","content":"Be brief."},{"role":"user","content":"yes"}]`)
	reply := chat.ParseMessages(
		`[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"tool_call","id":"c1","name":"look","arguments":{"n":1}}],"finish_reason":"stop"}]`,
	)
	now := chat.ParseMessages(
		`[{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":"yes"},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"look","arguments":"{\"n\": 1}"}}]},{"role":"user","content":"yes"},{"role":"assistant","content":"yes"}]`,
	)

	if got, want := chat.Known(now, before, reply), []bool{true, true, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("chat.Known(now, before, reply) = %v, want %v", got, want)
	}
}
