package tool

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
)

// MaxPreview is the most bytes of a preview that whoever approves a call is shown.
const MaxPreview = 64 << 10

// PreviewKind says what the text of a preview is.
type PreviewKind string

// The kinds of previews.
const (
	PreviewDiff      PreviewKind = "diff"      // how files change, in the unified format
	PreviewStatement PreviewKind = "statement" // what a database is told
	PreviewRequest   PreviewKind = "request"   // what another server is sent
	PreviewCommand   PreviewKind = "command"   // the program that runs, with its arguments
	PreviewText      PreviewKind = "text"      // anything else, in words
)

// Preview is exactly what a call would do, for whoever approves it. [NewPreview] makes one.
type Preview struct {
	Kind PreviewKind `json:"kind"`
	// Text is what people see: at most MaxPreview bytes, with a notice at its end if there is more.
	Text string `json:"text"`
	// Digest is a SHA-256, in hexadecimal digits, of all that the call would do, also of what the text leaves out.
	// The approval is for that and nothing else.
	Digest string `json:"sha256"`
}

// NewPreview returns a preview whose digest covers the whole text and the other parts: what decides the effect and is
// not in the text, or not whole, such as a hash of the bytes that would be written. The text is cut to MaxPreview
// bytes. It must not hold secrets, and the parts must be the same when the call would do the same.
func NewPreview(kind PreviewKind, text string, parts ...string) Preview {
	sum := sha256.New()
	for _, part := range append([]string{string(kind), text}, parts...) {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(part))) // a hash takes all
		sum.Write([]byte(part))
	}
	return Preview{Kind: kind, Text: shownPreview(text), Digest: hex.EncodeToString(sum.Sum(nil))}
}

// shownPreview returns a text that can be shown and recorded.
func shownPreview(text string) string {
	return Cut(strings.ReplaceAll(text, "\x00", "\uFFFD"), MaxPreview)
}

// Previewer is a Tool that can show what a call would do before it is approved.
//
// The digest of what was approved is in [Call.Approved] when the call is made. The tool then works out again what it
// would do, under the lock under which it does it, and calls [Call.CheckApproved]: if anything changed meanwhile, it
// does nothing.
type Previewer interface {
	Tool
	// Preview returns what the call would do. It changes nothing. An error says that the call cannot work, for
	// example because there is nothing to do: it is the result of the call, which the model reads, and nobody is
	// asked. [errors.ErrUnsupported] says that the tool has no previews after all: a human sees the arguments only.
	Preview(ctx context.Context, call Call) (Preview, error)
}

// CheckApproved returns [ErrChanged] if a human approved something else than what the call would do now. If nobody had
// to approve the call, there is nothing to compare.
func (c Call) CheckApproved(now Preview) error {
	if c.Approved != "" && c.Approved != now.Digest {
		return ErrChanged
	}
	return nil
}

// PreviewOf returns the preview of a call within its bounds, by a policy: its time-out, or 30 seconds if there is none,
// a text of at most MaxPreview bytes, and a panic of the tool is an error. can reports whether the tool has previews.
func PreviewOf(ctx context.Context, t Tool, p Policy, call Call) (preview Preview, can bool, err error) {
	previewer, can := t.(Previewer)
	if !can {
		return Preview{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(p.Timeout))
	defer cancel()

	err = safely(func() (err error) {
		preview, err = previewer.Preview(ctx, call)
		return err
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return Preview{}, false, nil
	case err != nil && ctx.Err() != nil:
		return Preview{}, true, errors.New("what the call would do could not be worked out in time")
	case err != nil:
		return Preview{}, true, err
	case preview.Kind == "" || preview.Digest == "":
		return Preview{}, true, errors.New("the tool does not say what the call would do")
	}
	preview.Text = shownPreview(preview.Text)
	return preview, true, nil
}
