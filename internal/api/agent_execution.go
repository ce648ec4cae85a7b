package api

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// wholeStep is the size, as JSON, up to which a step is sent whole, with an ETag. A larger one
// is streamed as it comes from the database.
const wholeStep = 8 << 20

// streamedRow is the room for what is streamed, in bytes: two large texts and the JSON of one.
const streamedRow = 16 << 20

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

// sendStep sends a step with its cycles and tool calls, one by one. No more than one row of a
// large step is held.
func (s *Server) sendStep(c echo.Context, root, id string) error {
	w := stepWriter{server: s, c: c, answer: httpd.AnswerTo(c), o: newObject(nil)}
	defer w.end()
	err := s.reader(c).StepRows(c.Request().Context(), root, id, &w)
	if err == nil {
		err = w.finish()
	}
	if errors.Is(err, errHead) {
		return c.NoContent(http.StatusOK)
	}
	return err
}

// stepWriter encodes a step.
type stepWriter struct {
	server *Server
	c      echo.Context
	answer *httpd.Answer
	o      *object
	step   *tree.Step
	cycles int
	cycle  *tree.Cycle // not at its end yet; nil: none
	calls  int         // of the cycle
	done   func()      // ends the turn of a step that is streamed; nil: it is not
}

// TakeStep implements [store.StepTaker].
func (w *stepWriter) TakeStep(st *tree.Step) error {
	w.step = st
	addStepHead(w.o, st)
	w.o.name("thinkActSteps")
	w.o.b = append(w.o.b, '[')
	return nil
}

// TakeCycle implements [store.StepTaker]. The cycle names its first tool call, so it waits for
// that.
func (w *stepWriter) TakeCycle(cycle *tree.Cycle) error {
	w.endCycle()
	w.cycle = cycle
	return w.next()
}

// TakeToolCall implements [store.StepTaker].
func (w *stepWriter) TakeToolCall(call *tree.ToolCall) error {
	if w.calls == 0 {
		w.beginCycle(&call.Record)
	} else {
		w.o.b = append(w.o.b, ',')
	}
	w.calls++
	addToolCall(w.o, call)
	return w.next()
}

func (w *stepWriter) beginCycle(firstCall *record.ActTool) {
	if w.cycles++; w.cycles > 1 {
		w.o.b = append(w.o.b, ',')
	}
	addCycleHead(w.o, w.cycle, w.step.ID, firstCall)
	w.o.name("actToolInfoList")
	w.o.b = append(w.o.b, '[')
}

func (w *stepWriter) endCycle() {
	if w.cycle == nil {
		return
	}
	if w.calls == 0 {
		w.beginCycle(nil)
	}
	w.o.b = append(w.o.b, ']')
	addCycleEnd(w.o, w.cycle)
	w.cycle, w.calls = nil, 0
}

// next sends what is encoded, if the step is a large one.
func (w *stepWriter) next() error {
	if w.done == nil && len(w.o.b) > wholeStep {
		if err := w.stream(); err != nil {
			return err
		}
	}
	w.o.next()
	if w.done != nil {
		w.answer.Release()
	}
	return w.o.err
}

// stream begins to send the step while it is read.
func (w *stepWriter) stream() (err error) {
	head := w.c.Request().Method == http.MethodHead
	if !head {
		if w.done, err = w.server.long.Take(w.c.Request().Context(), httpd.ClientOf(w.c)); err != nil {
			return err
		}
		if err := w.answer.Stream(streamedRow); err != nil {
			return err
		}
	}
	header := w.c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	header.Set("Cache-Control", "no-cache")
	if head {
		return errHead
	}
	w.o.spill = func(part []byte) error {
		_, err := w.c.Response().Write(part)
		return err
	}
	return nil
}

// endStep encodes what comes behind the rows.
func (w *stepWriter) endStep() {
	w.endCycle()
	w.o.b = append(w.o.b, ']')
	addStepEnd(w.o, w.step)
}

// finish sends the rest.
func (w *stepWriter) finish() error {
	w.endStep()
	if w.done == nil {
		return sendWhole(w.c, w.o)
	}
	w.o.b = append(w.o.b, '\n')
	w.o.flush()
	return w.o.err
}

func (w *stepWriter) end() {
	if w.done != nil {
		w.done()
	}
	w.o.free()
}
