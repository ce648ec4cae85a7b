package api

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/tree"
)

// wholeStep is the size, as JSON, up to which a step is sent whole, with an ETag. A larger one
// is streamed as it comes from the database.
const wholeStep = 8 << 20

func (s *Server) step(c echo.Context) error {
	id, err := nativeID(c, "stepId")
	if err != nil {
		return err
	}
	q := queryOf(c, "root")
	root := q.text("root")
	if q.err != nil {
		return q.err
	}
	return s.sendStep(c, root, id)
}

// sendStep sends a step with its cycles, one by one. No more than one cycle of a large step is
// held.
func (s *Server) sendStep(c echo.Context, root, id string) error {
	w := stepWriter{server: s, c: c, answer: httpd.AnswerTo(c)}
	defer w.end()
	ctx := c.Request().Context()
	err := s.reader(c).StepCycles(ctx, root, id, w.begin, w.add)
	switch {
	case errors.Is(err, errHead):
		return c.NoContent(http.StatusOK)
	case err != nil:
		return err
	}
	return w.finish()
}

// stepWriter encodes a step.
type stepWriter struct {
	server *Server
	c      echo.Context
	answer *httpd.Answer
	o      object
	step   *tree.Step
	cycles int
	done   func() // ends the turn of a step that is streamed; nil: it is not
}

func (w *stepWriter) begin(st *tree.Step) error {
	w.step = st
	addStepHead(&w.o, st)
	w.o.name("thinkActSteps")
	w.o.b = append(w.o.b, '[')
	return nil
}

func (w *stepWriter) add(cycle *tree.Cycle) error {
	if w.cycles++; w.cycles > 1 {
		w.o.b = append(w.o.b, ',')
	}
	addCycle(&w.o, cycle, w.step.ID)
	if w.done == nil && len(w.o.b) <= wholeStep {
		return nil
	}
	return w.stream()
}

// stream sends what is encoded.
func (w *stepWriter) stream() (err error) {
	if w.done == nil {
		if w.c.Request().Method == http.MethodHead {
			return errHead
		}
		if w.done, err = w.server.long.Take(w.c.Request().Context(), httpd.ClientOf(w.c)); err != nil {
			return err
		}
		w.answer.Stream()
		w.c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		w.c.Response().Header().Set("Cache-Control", "no-cache")
	}
	_, err = w.c.Response().Write(w.o.b)
	w.o.b = w.o.b[:0]
	w.answer.Release()
	return err
}

// finish sends the rest.
func (w *stepWriter) finish() error {
	w.o.b = append(w.o.b, ']')
	addStepEnd(&w.o, w.step)
	if w.done == nil {
		return sendTagged(w.c, func(o *object) { o.b = w.o.b })
	}
	w.o.b = append(w.o.b, '\n')
	return w.stream()
}

func (w *stepWriter) end() {
	if w.done != nil {
		w.done()
	}
}
