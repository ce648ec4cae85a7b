// Package otlp turns what OpenTelemetry exporters send into records: bodies into
// spans ([DecodeTraces], [DecodeLogs]), and the spans of one trace into the rows
// that they mean ([Project]). Both are pure: no I/O, no clock, no state.
//
// What the spans of a framework mean is in one file per convention: genai.go,
// openinference.go and their neighbours, in the order of the list in
// classify.go. How rows follow from them is in project.go.
package otlp
