// Package otlp converts what OpenTelemetry exporters send into records: bodies into spans
// ([DecodeTraces], [DecodeLogs]), and the spans of one trace into rows ([Project]). Both are pure: no
// I/O, no clock, no state.
//
// What the spans of a framework mean is in one file per convention: genai.go, openinference.go and so
// on, in the order of the list in classify.go. A file uses only what files before it in this order declare:
//   - json.go, span.go
//   - bodies and their limits: schema.go, limits.go, signal.go, fault.go, chunk.go
//   - texts and figures: python.go, messages.go, mend.go, envelope.go, usage.go, aside.go
//   - what a span says: facts.go, parties.go, context.go; the conventions, among them names.go and records.go, where
//     genai.go, names.go and langsmith.go come first; chain.go, classify.go
//   - what is sent: rowless.go, decode.go, cut.go, jsspan.go, answer.go
//   - places in a trace: forest.go, merge.go, logged.go, orphans.go, pipeline.go, plant.go
//   - rows: cycles.go, steps.go, made.go, rows.go, project.go
package otlp
