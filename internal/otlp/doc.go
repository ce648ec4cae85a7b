// Package otlp converts what OpenTelemetry exporters send into records: bodies into spans
// ([DecodeTraces], [DecodeLogs]), and the spans of one trace into rows ([Project]). Both are pure: no
// I/O, no clock, no state.
//
// What the spans of a framework mean is in one file per convention: genai.go, openinference.go and so
// on, in the order of the list in classify.go. A file uses only what files of a lower layer declare.
// From low to high: json.go and span.go; limits.go; chunk.go; messages.go; envelope.go; usage.go;
// facts.go; the conventions, among them records.go; chain.go; classify.go; rowless.go, decode.go, cut.go, jsspan.go
// and answer.go; merge.go and forest.go; logged.go, orphans.go and pipeline.go; plant.go; cycles.go and steps.go;
// rows.go; project.go.
package otlp
