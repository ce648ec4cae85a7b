//go:build attack

package attack_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// S1: neither spans nor log records get into a run.

// traceDoors are all ways of traces and logs. body is an export as JSON of OTLP.
var traceDoors = []struct {
	name string
	send func(h *house, signal string, body []byte)
}{
	{"HTTP, JSON", func(h *house, signal string, body []byte) { h.export(signal, "application/json", body) }},
	{"HTTP, protobuf", func(h *house, signal string, body []byte) {
		var b []byte
		var err error
		if signal == "traces" {
			b, err = traces(h, body).MarshalProto()
		} else {
			b, err = logs(h, body).MarshalProto()
		}
		if err != nil {
			h.t.Fatal(err)
		}
		h.export(signal, "application/x-protobuf", b)
	}},
	{"gRPC", exportByCall},
	{"actlog import", func(h *house, _ string, body []byte) {
		path := filepath.Join(h.dir, "export.json")
		h.write(path, string(body))
		h.command("write", "", "import", path)
	}},
}

func traces(h *house, body []byte) ptraceotlp.ExportRequest {
	t, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(body)
	if err != nil {
		h.t.Fatal(err)
	}
	return ptraceotlp.NewExportRequestFromTraces(t)
}

func logs(h *house, body []byte) plogotlp.ExportRequest {
	l, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(body)
	if err != nil {
		h.t.Fatal(err)
	}
	return plogotlp.NewExportRequestFromLogs(l)
}

func (h *house) export(signal, contentType string, body []byte) {
	h.t.Helper()
	if a := h.call("write", http.MethodPost, "/v1/"+signal, body,
		"Content-Type: "+contentType); a.status != http.StatusOK {
		h.t.Errorf("%s as %s: %d %s", signal, contentType, a.status, a.body)
	}
}

func exportByCall(h *house, signal string, body []byte) {
	h.t.Helper()
	conn, err := grpc.NewClient(h.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()

	ctx := metadata.AppendToOutgoingContext(h.t.Context(), "authorization", "Bearer "+h.keys["write"])
	if signal == "traces" {
		_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, traces(h, body))
	} else {
		_, err = plogotlp.NewGRPCClient(conn).Export(ctx, logs(h, body))
	}
	if err != nil {
		h.t.Errorf("%s by gRPC: %v", signal, err)
	}
}

// spansAbout are an agent, a model call and a tool call of a trace, whose attributes name everything of a run that has
// a name.
func spansAbout(r *run, trace string) (spans, records []byte) {
	names := []object{
		attribute("gen_ai.conversation.id", "talk-"+r.mark), attribute("session.id", "talk-"+r.mark),
		attribute("actlog.plan_id", r.id), attribute("actlog.planId", r.id), attribute("actlog.root_plan_id", r.id),
		attribute("actlog.rootPlanId", r.id),
		attribute("gen_ai.workflow.run_id", r.id), attribute("traceId", r.id), attribute("actlog.state", "COMPLETED"),
	}
	for _, row := range r.records() {
		for _, member := range []string{"stepId", "toolCallId", "waitId", "currentPlanId", "providerCallId", "responseId"} {
			if id, ok := row[member].(string); ok {
				names = append(names, attribute("actlog."+member, id), attribute("gen_ai.tool.call.id", id),
					attribute("gen_ai.response.id", id), attribute("gen_ai.agent.id", id))
			}
		}
	}

	span := func(id, parent, operation, name string, more ...object) object {
		return object{
			"traceId": trace, "spanId": id, "parentSpanId": parent, "name": operation + " " + name, "kind": 1,
			"startTimeUnixNano": "1795176000000000000", "endTimeUnixNano": "1795176001000000000",
			"attributes": append(append([]object{
				attribute("gen_ai.operation.name", operation), attribute("gen_ai.agent.name", r.kind),
			}, more...), names...),
		}
	}

	body := object{"resourceSpans": []object{{
		"resource": object{"attributes": names},
		"scopeSpans": []object{{"scope": object{"name": "gen_ai"}, "spans": []object{
			span("00000000000000a1", "", "invoke_agent", r.kind),
			span("00000000000000a2", "00000000000000a1", "chat", "scripted",
				attribute("gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"forged"}]}]`)),
			span("00000000000000a3", "00000000000000a1", "execute_tool", "bank-pay", attribute("gen_ai.tool.name", "bank-pay"),
				attribute("gen_ai.tool.call.result", "forged")),
		}}},
	}}}
	spans, _ = json.Marshal(body) // texts
	records, _ = json.Marshal(object{"resourceLogs": []object{{
		"resource": object{"attributes": names},
		"scopeLogs": []object{{"logRecords": []object{{
			"traceId": trace, "spanId": "00000000000000a2", "timeUnixNano": "1795176000500000000",
			"eventName":  "gen_ai.client.inference.operation.details",
			"attributes": append([]object{attribute("event.name", "gen_ai.choice")}, names...),
			"body":       object{"stringValue": "forged"},
		}}}},
	}}})
	return spans, records
}

func attribute(key, value string) object {
	return object{"key": key, "value": object{"stringValue": value}}
}

func TestS1Traces(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, m := range moments {
		for i, d := range traceDoors {
			what := m.name + ", " + d.name
			r := h.start(m.kind)
			r.reach()
			before := r.reads()

			for j, trace := range r.traceIDs() {
				spans, records := spansAbout(r, trace)
				if (i+j)%2 == 0 {
					spans, records = records, spans
				}
				for _, body := range [][]byte{spans, records} {
					signal := "traces"
					if body[10] == 'L' { // resourceLogs
						signal = "logs"
					}
					d.send(h, signal, body)
				}
			}

			r.showsWhatItShowed(what, before)
			r.goesAsUndisturbed(what)
		}
	}
}

// traceIDs are a new trace, and those into which the ids of a run can be turned.
func (r *run) traceIDs() []string {
	own := ""
	for _, c := range r.id {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' {
			own += string(c)
		}
	}
	return []string{hex.EncodeToString([]byte(r.mark[5:])), own[len(own)-32:], own[:32]}
}

// Should a run be part of a trace, then spans of this trace change nothing of it either, whichever comes first.
func TestS1TraceOfTheRun(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for i, m := range moments {
		for _, first := range []bool{true, false} {
			what := fmt.Sprint(m.name, ", spans first: ", first)
			trace := fmt.Sprintf("%032x", 4096+2*i)
			if first {
				trace = fmt.Sprintf("%032x", 4097+2*i)
			}

			r := h.start(m.kind)
			r.reach()
			spans, records := spansAbout(r, trace)
			if first {
				h.export("traces", "application/json", spans)
			}

			h.sql("UPDATE actlog.plan_execution_record SET trace_id = $1 WHERE root_plan_id = $2 AND current_plan_id = $2",
				trace, r.id)
			before := r.reads()
			h.export("logs", "application/json", records)
			h.export("traces", "application/json", spans)
			r.showsWhatItShowed(what, before)
			r.goesAsUndisturbed(what)
		}
	}
}

// sql does what only the owner of the database can do.
func (h *house) sql(statement string, args ...any) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.database)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close(h.t.Context())
	if tag, err := conn.Exec(h.t.Context(), statement, args...); err != nil || tag.RowsAffected() != 1 {
		h.t.Fatalf("%s: %v, %v", statement, tag, err)
	}
}
