package tool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/actlog/actlog/record"
)

// ErrUnknown says that a call began, and that nobody can say how it ended: it may have taken effect
// or not. A tool wraps it, for example when its connection broke after it sent the request. What
// happens then is up to [Policy.OnUnknown].
var ErrUnknown = errors.New("outcome unknown")

// ErrTimeout says that a call had no result within the time-out of its policy.
var ErrTimeout = errors.New("timed out")

// ErrChanged means that a call would do something else than what was approved. Nothing was done.
var ErrChanged = errors.New("what the call would do changed after it was approved, so nothing was done; " +
	"look at how things are now, and make a new call, which asks for approval again")

// Tool is something that an agent can do. Its methods may be called at the same time.
type Tool interface {
	// Spec returns the same each time.
	Spec() Spec
	// Call does the work. What went wrong with the work itself is a Result with Failed, whose text
	// the model reads. An error is for what the tool cannot tell the model: the context ended, or
	// the outcome is unknown ([ErrUnknown]). Use [Do] to call a tool.
	Call(ctx context.Context, call Call) (Result, error)
}

// Toucher is a Tool that can say what a call would change, so that a human can approve it.
type Toucher interface {
	Tool
	// Touches returns what the call would change, for example paths of files. It changes nothing.
	Touches(ctx context.Context, call Call) ([]string, error)
}

// ArgumentChecker is a Tool that checks arguments by more than the schema of its Spec.
type ArgumentChecker interface {
	Tool
	// CheckArguments returns what is wrong with arguments in the form of [Canonical], for a model. It changes nothing.
	CheckArguments(arguments json.RawMessage) error
}

// Preparer is a Tool that needs something before it can be called, such as a connection.
type Preparer interface {
	Tool
	// Prepare returns when the tool can be called. [Do] calls it before the time of the call begins.
	Prepare(ctx context.Context) error
}

// Spec is what models, configurations and people know of a tool.
type Spec struct {
	// Name is what the record, policies and configurations call the tool: at most 64 letters,
	// digits, "_", "-" and ".". Models are offered it with "-" in place of ".".
	Name string
	// Description tells the model what the tool does and when to use it.
	Description string
	// Schema is the JSON Schema of the arguments, which are always an object.
	Schema json.RawMessage
	Policy Policy
	// Server is the MCP server that has the tool, or empty.
	Server string
	// Untrusted says that the server itself chose the name and the description of the tool, and that nobody
	// answers for them: see [Rules.Of].
	Untrusted bool
	// Destructive says that the server itself calls the tool destructive. A rule by which the tool does not
	// write does not change that.
	Destructive bool
}

// Call is one call of a tool.
type Call struct {
	// ID is the tool call id. It is the same when the call is tried again, so a tool can pass it on
	// as an idempotency key.
	ID string
	// PlanID is the plan in which the call is made; empty if there is none. A program that the tool runs, and
	// that records what it does, can say that this call started it.
	PlanID string
	// Arguments is a JSON object, in the form of [Canonical]. Empty means {}.
	Arguments json.RawMessage
	// Approved is the digest of the [Preview] that a human approved; empty if nobody had to approve the call, or the
	// tool has no previews. See [Call.CheckApproved].
	Approved string
	// Ask puts a question to a human. It is nil where nobody answers. An error of it ends the call
	// and must be returned as it is: the answer may come much later, and the tool is called again
	// then. A question that was answered before is answered at once, by its Key.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// State is that of the last question which the call asked before it was made again; nil if there
	// was none.
	State json.RawMessage
}

// Question is what a tool wants to know from a human while it works.
type Question struct {
	// Key is unique among the questions of a call, and the same when the call is made again.
	Key string
	// From says who asks, for example the name of an MCP server.
	From    string
	Message string
	// Schema is the JSON Schema of the form: an object whose properties are texts, numbers, booleans
	// or lists of texts. It is empty if there is nothing to fill in.
	Schema json.RawMessage
	// URL is a page that the human is asked to visit instead of a form. It may be hostile: show it in
	// full, and do not open it by itself.
	URL string
	// Held says that the call goes on while it waits for the answer. If Ask returns an error, the call
	// ends and its outcome is unknown. Otherwise nothing is lost, and the call can be made again later.
	Held bool
	// State is what the tool needs to go on from here when it is called again, as JSON. It may be lost:
	// then the tool begins again, and asks the same.
	State json.RawMessage
}

// Answer is how a human answered a Question.
type Answer struct {
	Decision Decision
	// Values are keyed by the properties of the schema. They are set if Decision is Accept. A number is a
	// float64, or a [json.Number] if it is an integer that no float64 is.
	Values map[string]any
}

// Decision is what a human did with a Question.
type Decision string

// The decisions.
const (
	Accept  Decision = "accept"
	Decline Decision = "decline"
	Cancel  Decision = "cancel" // closed without a choice
)

// Result is how a call ended.
type Result struct {
	// Text is what the model reads: the output, or what went wrong.
	Text string
	// Failed says that the tool did not do what was asked.
	Failed bool
	// TimedOut says that the call failed because it took too long.
	TimedOut bool
	// Final says that a failed call would fail again, so it is not made again by [Policy.Retry]: its arguments are bad, or
	// there is nothing of that name.
	Final bool
	// Summary is one line for people, such as "Read 150 lines of main.go".
	Summary string
	// Data is the output as JSON, if the tool has it in that form.
	Data json.RawMessage
	// Sources are what the output was taken from.
	Sources []Source
	// Artifacts are what the call produced, by name. The caller chooses which go on record.
	Artifacts []Artifact
	// Embedding says what an embedder was used for; nil: none was.
	Embedding *Embedding
}

// Embedding is a search by the vectors of an embedder.
type Embedding struct {
	Model       string `json:"model"`
	Texts       int    `json:"texts"`                 // that were embedded for the call; others were known
	InputTokens *int64 `json:"inputTokens,omitempty"` // of these texts; nil: not said
	Hits        int    `json:"hits"`                  // that were found
}

// Source is a reference to something that a tool read or found.
type Source struct {
	URI         string
	Type        record.SourceType
	LineStart   int // from 1; 0 means no lines
	LineEnd     int // inclusive
	Snippet     string
	Description string
	Score       float64 // relevance from 0 to 1; 0 means not measured
}

// Artifact is something that a call produced, such as test_results.
type Artifact struct {
	Name  string
	Type  string // for example "text", "files", "counts"
	Value json.RawMessage
}

// Failure returns the Result of a call that did not work. The text says what went wrong and, if
// possible, what to do instead.
func Failure(text string) Result { return Result{Text: text, Failed: true} }

// BadArguments returns the Result of a call whose arguments are not what the tool takes. The model reads why.
func BadArguments(why error) Result {
	return Result{Text: "Bad arguments: " + why.Error(), Failed: true, Final: true}
}
