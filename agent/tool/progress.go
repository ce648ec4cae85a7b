package tool

import "context"

// progressKey is the key of what listens to the progress of a call, in the context of the call.
type progressKey struct{}

// Progress says how far a call has come: how much is done of how much in all, in a unit of the tool's choice, and what
// the tool is doing. A total that is not above 0 and a done below 0 are not known, and neither is an infinity or NaN;
// the message may be empty. Each report replaces the one before. ctx is the context that the call was given.
//
// It returns at once and costs next to nothing, so a tool may report as often as it likes. Where nobody listens, and
// after the call has ended, it does nothing.
func Progress(ctx context.Context, done, total float64, message string) {
	if report, ok := ctx.Value(progressKey{}).(func(done, total float64, message string)); ok {
		report(done, total, message)
	}
}

// ContextWithProgress returns a context in which a function receives what [Progress] reports, also at the same time. It
// returns at once.
func ContextWithProgress(ctx context.Context, report func(done, total float64, message string)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}
