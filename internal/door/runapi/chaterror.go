package runapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/record"
)

// chatError is an error as clients of OpenAI know it.
type chatError struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"-"`
	Code    string `json:"-"`
	// Again says that the client may send the same again by itself. It may not where that would start another run.
	Again bool `json:"-"`

	PlanID    string  `json:"planId,omitempty"` // the run that goes on without the request
	ParamJSON *string `json:"param"`
	CodeJSON  *string `json:"code"`
}

func (e *chatError) Error() string { return e.Message }

type chatErrorJSON struct {
	Error *chatError `json:"error"`
}

// chatErrorOf returns an error as clients of OpenAI know it.
func chatErrorOf(err error) *chatError {
	out := new(chatError)
	unknown, isUnknown := errors.AsType[*engine.UnknownError](err)
	bad, invalid := errors.AsType[*record.InvalidError](err)
	own, isOwn := errors.AsType[*chatError](err)

	switch {
	case isOwn:
		*out = *own
	case isUnknown:
		*out = chatError{Status: http.StatusNotFound, Message: unknownModel(unknown), Param: "model", Code: "model_not_found"}
	case invalid && bad.Field == idempotencyHeader:
		*out = chatError{
			Status: http.StatusUnprocessableEntity, Message: bad.Field + " " + bad.Reason, Param: bad.Field,
			Code: "idempotency_key_in_use",
		}
	case invalid:
		param := strings.Replace(strings.TrimPrefix(bad.Field, "input."), "history", "messages", 1)
		*out = chatError{
			Status: http.StatusBadRequest, Message: strings.TrimSpace(param + " " + bad.Reason), Param: param,
			Code: string(bad.Code),
		}
	case errors.Is(err, runs.ErrRestarted):
		*out = chatError{
			Status:  http.StatusInternalServerError,
			Message: err.Error() + ". Ask again with the same Idempotency-Key to get the whole answer.",
			Code:    "answer_restarted",
		}
	default:
		p, _ := httpd.ProblemOf(err)
		*out = chatError{Status: p.Status, Message: p.Detail, Param: p.Field, Again: p.RetryAfter > 0}
	}

	out.Type = cmp.Or(out.Type, chatErrorType(out.Status))
	out.ParamJSON = optional.Pointer(out.Param)
	out.CodeJSON = optional.Pointer(cmp.Or(out.Code, chatErrorCode(out.Status)))
	return out
}

func unknownModel(u *engine.UnknownError) string {
	if u.Kind == "model" {
		return fmt.Sprintf("There is no model %q: a model is %sNAME, the name of an agent. GET /v1/models lists them.",
			shown(u.Name), agentModel)
	}
	return "There is no such agent: " + u.Error()
}

func chatErrorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if status >= http.StatusInternalServerError {
		return "server_error"
	}
	return "invalid_request_error"
}

// chatErrorCode is the code of errors that have none of their own.
func chatErrorCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "invalid_api_key"
	case http.StatusForbidden:
		return "insufficient_scope"
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	}
	return ""
}

// refuseChat answers an error in the words of the chat API, or returns one that the server is to log.
func refuseChat(c echo.Context, err error) error {
	own, isOwn := errors.AsType[*chatError](err)
	_, invalid := errors.AsType[*record.InvalidError](err)
	_, unknown := errors.AsType[*engine.UnknownError](err)
	if !isOwn && !invalid && !unknown {
		return err // it comes back as a problem, see refuseChatProblem
	}
	return sendChatError(c, chatErrorOf(err), isOwn && !own.Again)
}

// refuseChatProblem answers what every API refuses.
func refuseChatProblem(c echo.Context, p *httpd.Problem) error {
	return sendChatError(c, chatErrorOf(p), false)
}

// sendChatError answers with an error. final says that a client is not to ask again by itself, as OpenAI's do: it
// would start another run.
func sendChatError(c echo.Context, e *chatError, final bool) error {
	if final {
		c.Response().Header().Set("X-Should-Retry", "false")
	}
	return c.JSON(e.Status, chatErrorJSON{e})
}
