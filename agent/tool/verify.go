package tool

import "context"

// Verifier is a Tool that can say whether a call took effect whose outcome nobody knows, for example because the
// program that made it was killed. It finds that out by the id of the call, which it left where the effect is.
//
// Whoever makes calls asks it before [Policy.OnUnknown] decides: a call that took effect is over. So a tool that is
// sure to find its effect can have the policy [Retry].
type Verifier interface {
	Tool
	// Verify returns the result of a call that took effect, and whether it did. It changes nothing. false means that the
	// call did not take effect, or that the tool cannot tell. If it cannot, and the call could take effect a second time,
	// the error wraps [ErrUnknown]: then the call is not made again, also if its policy is [Retry].
	Verify(ctx context.Context, call Call) (result Result, done bool, err error)
}

// Verify asks a tool whether a call took effect, within its bounds: the time-out of the policy, or 30 seconds if there
// is none, and texts as long as those of [Do]. done is false if the tool is no [Verifier] or cannot tell.
func Verify(ctx context.Context, t Tool, p Policy, call Call) (result Result, done bool, err error) {
	verifier, ok := t.(Verifier)
	if !ok {
		return Result{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(p.Timeout))
	defer cancel()

	err = safely(func() (err error) {
		result, done, err = verifier.Verify(ctx, call)
		return err
	})
	if err != nil || !done {
		return Result{}, false, err
	}
	return within(result, MaxText), true, nil
}
