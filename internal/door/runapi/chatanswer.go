package runapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// chatUsage is what a run used, with all runs below it.
type chatUsage struct {
	PromptTokens      int64          `json:"prompt_tokens"`
	CompletionTokens  int64          `json:"completion_tokens"`
	TotalTokens       int64          `json:"total_tokens"`
	PromptDetails     chatPrompt     `json:"prompt_tokens_details"`
	CompletionDetails chatCompletion `json:"completion_tokens_details"`
}

type chatPrompt struct {
	CachedTokens int64 `json:"cached_tokens"`
}

type chatCompletion struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

func chatUsageOf(d *runstore.RunDetail) *chatUsage {
	t := &d.Total
	return &chatUsage{
		PromptTokens: t.InputTokens, CompletionTokens: t.OutputTokens, TotalTokens: t.InputTokens + t.OutputTokens,
		PromptDetails: chatPrompt{t.CacheReadInputTokens}, CompletionDetails: chatCompletion{t.ReasoningTokens},
	}
}

// chatAnswerJSON is a completion, or a piece of one.
type chatAnswerJSON struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      *chatReply `json:"message,omitempty"`
	Delta        *chatReply `json:"delta,omitempty"`
	LogProbs     *struct{}  `json:"logprobs"`
	FinishReason *string    `json:"finish_reason"`
}

type chatReply struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal *string `json:"refusal,omitempty"`
}

func newChatAnswer(object string, run engine.Started, agent string, created time.Time) chatAnswerJSON {
	return chatAnswerJSON{
		ID: "chatcmpl-" + run.PlanID, Object: object, Created: created.Unix(), Model: agentModel + agent,
		Choices: []chatChoice{},
	}
}

// chatFinish returns why an answer ends, or the error of a run that has none.
func chatFinish(d *runstore.RunDetail) (reason string, err error) {
	kind := optional.Value(d.Plan.ErrorKind)
	switch {
	case d.State == record.Completed:
		return "stop", nil
	case kind == engine.CutOff:
		return "length", nil
	case kind == "refusal", kind == "content_filter":
		return "content_filter", nil
	case d.State == record.Cancelled:
		return "", &chatError{Status: http.StatusInternalServerError, Message: "The run was stopped.", Code: "run_cancelled"}
	}
	return "", &chatError{Status: http.StatusInternalServerError, Message: "The run failed: " + why(d), Code: kind}
}

// completion starts a run of an agent and answers with what it says in the end.
func (s *Server) completion(c echo.Context) error {
	r, run, err := s.chatStart(c)
	if err != nil {
		return refuseChat(c, err)
	}
	if r.stream {
		return s.streamChat(c, r, run)
	}

	d, err := s.awaitChat(c, run)
	if err != nil {
		return refuseChat(c, err)
	}
	reason, err := chatFinish(d)
	if err != nil {
		return refuseChat(c, err)
	}

	out := newChatAnswer("chat.completion", run, r.agent, *d.CreatedAt)
	reply := &chatReply{Role: "assistant", Content: new("")}
	if d.Plan.Summary != nil {
		reply.Content = d.Plan.Summary
	}
	if reason == "content_filter" {
		reply.Refusal = new(why(d))
	}
	out.Choices, out.Usage = []chatChoice{{Message: reply, FinishReason: &reason}}, chatUsageOf(d)
	return c.JSON(http.StatusOK, out)
}

// chatLook is how long a request waits for its run before it looks again whether the run waits for a human.
const chatLook = 5 * time.Second

// awaitChat waits until a run has ended, but not for a human for ever, and not for a worker where none lives. A
// client that goes away changes nothing: the run goes on.
func (s *Server) awaitChat(c echo.Context, run engine.Started) (*runstore.RunDetail, error) {
	ctx, look := c.Request().Context(), min(chatLook, s.config.ChatPatience, s.config.PlanPatience/2)
	var waits, lacks time.Duration // how long it has waited for a human or an event, and for a worker
	for {
		began := time.Now()
		d, err := s.await(c, run, look, answered)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil, httpd.ErrGone
		case err != nil || d.State.Terminal():
			return d, err
		case runs.Parked(d):
			return nil, parkedChat(c, d)
		case took < look:
			return nil, record.ErrClosed
		}

		waits, lacks = waits+took, lacks+took
		if !runs.Idle(d) && !runs.Sleeps(d) {
			waits = 0
		}
		if len(d.WaitingFor) == 0 || runs.Sleeps(d) {
			lacks = 0
		}
		switch {
		case waits >= s.config.ChatPatience && runs.Sleeps(d):
			return nil, &chatError{
				Status: http.StatusGatewayTimeout, Code: "waiting_for_event",
				Message: "The run waits: " + strings.Join(d.WaitingFor, ", ") + ". It goes on by itself then. " +
					"Ask again with the same Idempotency-Key, or read GET /api/v1/runs/" + run.PlanID + ".",
			}
		case waits >= s.config.ChatPatience:
			return nil, &chatError{
				Status: http.StatusGatewayTimeout, Code: "waiting_for_human",
				Message: "The run waits for a human, and goes on when one has answered: actlog answer " + run.PlanID +
					". Ask again with the same Idempotency-Key, or read GET /api/v1/runs/" + run.PlanID + ".",
			}
		case lacks >= s.config.PlanPatience:
			return nil, s.noChatWorker(context.WithoutCancel(ctx), c, d)
		}
	}
}

// parkedChat says that the run waits for a model. Without an Idempotency-Key the same request would start another
// run.
func parkedChat(c echo.Context, d *runstore.RunDetail) error {
	p := parked(d)
	c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	return &chatError{
		Status: p.Status, Code: "model_away", Message: p.Detail, Again: c.Request().Header.Get(idempotencyHeader) != "",
		PlanID: p.PlanID,
	}
}

// noChatWorker says that no worker lives that can carry a run. Without an Idempotency-Key a run that has not begun is
// stopped, because nobody would ask for it again.
func (s *Server) noChatWorker(ctx context.Context, c echo.Context, d *runstore.RunDetail) error {
	failed := &chatError{
		Status: http.StatusServiceUnavailable, Code: "no_worker", Again: true,
		Message: "No worker lives that can carry the run. It needs: " + strings.Join(d.WaitingFor, ", ") +
			". actlog serve --config and actlog work start workers.",
	}

	if c.Request().Header.Get(idempotencyHeader) != "" {
		failed.Message += " The run begins when one lives: ask again with the same Idempotency-Key."
		return failed
	}
	if d.State != record.Pending {
		failed.Again = false
		return failed
	}

	if err := s.stopUnbegun(ctx, c, d); err != nil {
		return err
	}
	failed.Message += " The run was stopped: ask again when one lives."
	return failed
}

// streamChat sends the answer of a run while it arrives.
func (s *Server) streamChat(c echo.Context, r chatRequest, run engine.Started) error {
	reader := runstore.NewReader(s.store.Within(func(int64) error { return nil })) // no answer holds what is read
	if err := beginEvents(c); err != nil {
		return err
	}

	out := chatStream{c: c, piece: newChatAnswer("chat.completion.chunk", run, r.agent, time.Now())}
	if err := out.sendPiece(&chatReply{Role: "assistant", Content: new("")}, nil); err != nil {
		return err
	}

	answer := runs.Answer{
		Watch: s.watch, Deltas: s.store.Deltas(), RootPlanID: run.RootPlanID, PlanID: run.PlanID, Silence: silence,
		Read: func(ctx context.Context) (*runstore.RunDetail, error) { return reader.RunDetail(ctx, run.PlanID) },
	}
	d, err := answer.Follow(c.Request().Context(), func(text string) error {
		if text == "" {
			return flushText(c, stillOpen)
		}
		return out.sendPiece(&chatReply{Content: &text}, nil)
	})

	if err == nil && d != nil && runs.Parked(d) {
		err = parkedChat(c, d)
	}
	if err == nil && d == nil { // the client is gone, or the server shuts down
		err = record.ErrClosed
	}
	if err != nil {
		return out.fail(err)
	}
	return out.end(d, r.includeUsage)
}

type chatStream struct {
	c     echo.Context
	piece chatAnswerJSON
}

func (s *chatStream) sendPiece(reply *chatReply, finish *string) error {
	piece := s.piece
	piece.Choices = []chatChoice{{Delta: reply, FinishReason: finish}}
	return sendData(s.c, "", piece)
}

func (s *chatStream) end(d *runstore.RunDetail, usage bool) error {
	reason, err := chatFinish(d)
	if err != nil {
		return s.fail(err)
	}

	last := &chatReply{}
	if reason == "content_filter" {
		last.Refusal = new(why(d))
	}
	if err := s.sendPiece(last, &reason); err != nil {
		return err
	}

	if usage {
		piece := s.piece
		piece.Usage = chatUsageOf(d)
		if err := sendData(s.c, "", piece); err != nil {
			return err
		}
	}
	return flushText(s.c, "data: [DONE]\n\n")
}

// fail ends it with an error, which takes the place of the end.
func (s *chatStream) fail(err error) error {
	if errors.Is(err, httpd.ErrGone) {
		return err
	}
	return sendData(s.c, "", chatErrorJSON{chatErrorOf(err)})
}

type chatModelJSON struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Description string `json:"description,omitempty"`
}

type chatModelsJSON struct {
	Object string          `json:"object"`
	Data   []chatModelJSON `json:"data"`
}

func (s *Server) chatAgents() []chatModelJSON {
	all := []chatModelJSON{}
	for _, each := range s.catalog.Startables() {
		if each.Executor == "agent" {
			all = append(all, chatModelJSON{
				ID: agentModel + each.Name, Object: "model", OwnedBy: "actlog", Description: each.Description,
			})
		}
	}
	return all
}

func (s *Server) chatModels(c echo.Context) error {
	if !httpd.MayAct(c) {
		return errNoSession
	}
	return c.JSON(http.StatusOK, chatModelsJSON{Object: "list", Data: s.chatAgents()})
}

// chatModel serves an agent as a model. The member of the path is its name behind a prefix: clients escape the slash
// of agent/NAME, or do not.
func (s *Server) chatModel(member, prefix string) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !httpd.MayAct(c) {
			return errNoSession
		}
		id, err := httpd.NativeID(c, member)
		if err != nil {
			return err
		}

		all := s.chatAgents()
		at := slices.IndexFunc(all, func(m chatModelJSON) bool { return m.ID == prefix+id })
		if at < 0 {
			return refuseChat(c, &engine.UnknownError{Kind: "model", Name: prefix + id})
		}
		return c.JSON(http.StatusOK, all[at])
	}
}
