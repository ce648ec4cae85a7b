package api

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// wholeStep is the size of its rows, in bytes, up to which a step is sent whole, with an ETag. A
// larger one is streamed as it comes from the database.
const wholeStep = 8 << 20

// streamedRow is the room for what is streamed, in bytes: two large texts and the JSON of one.
const streamedRow = 16 << 20

func (s *Server) step(c echo.Context) error {
	q := httpd.QueryOf(c, "root", "contents")
	root, once := q.Text("root"), onceOf(q)
	id := q.ID("stepId")
	if q.Err != nil {
		return q.Err
	}
	return s.sendStep(c, root, id, once)
}

// errLarge means that a step is too large to be sent whole.
var errLarge = errors.New("the step is large")

// sendStep sends a step with its cycles and tool calls. No more than one row of a large step is
// held. How a step turned out is known of whole texts only: with contents once it is smaller.
func (s *Server) sendStep(c echo.Context, root, id string, once bool) error {
	answer, ctx := httpd.AnswerTo(c), c.Request().Context()
	if answer.WasStreamed() && !once && c.Request().Method == http.MethodGet {
		return s.streamStep(c, root, id, once)
	}

	var size int64
	small := s.store.Within(func(n int64) error {
		if size += n; size > wholeStep {
			return errLarge
		}
		return answer.Take(n)
	})

	var st *tree.Step
	var contents []content.Content
	var err error
	if once {
		st, contents, err = small.StepDetailOnce(ctx, root, id)
	} else {
		st, err = small.StepDetail(ctx, root, id)
	}

	if errors.Is(err, errLarge) {
		answer.Release()
		return s.streamStep(c, root, id, once)
	}
	if err != nil {
		return err
	}

	return sendTagged(c, func(o *object) {
		if once {
			addStepOnce(o, st, contents)
		} else {
			addStep(o, st)
		}
	})
}

// streamStep sends a step row by row.
func (s *Server) streamStep(c echo.Context, root, id string, once bool) error {
	header := c.Response().Header()
	head := func() {
		header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		header.Set("Cache-Control", "no-cache")
	}
	if c.Request().Method == http.MethodHead {
		head()
		return c.NoContent(http.StatusOK)
	}

	done, err := s.long.Take(c.Request().Context(), httpd.ClientOf(c))
	if err != nil {
		return err
	}
	defer done()

	answer := httpd.AnswerTo(c)
	if err := answer.Stream(streamedRow); err != nil {
		return err
	}
	head()

	w := newStepWriter(once, func(part []byte) error {
		defer answer.Release()
		_, err := c.Response().Write(part)
		return err
	})
	defer w.o.free()

	if once {
		err = s.lookup.Reader(c).StepRowsOnce(c.Request().Context(), root, id, w)
	} else {
		err = s.lookup.Reader(c).StepRows(c.Request().Context(), root, id, w)
	}
	if err != nil {
		return err
	}
	return w.finish()
}

// stepWriter encodes a step row by row.
type stepWriter struct {
	o      *object
	once   bool // contents come first
	step   *tree.Step
	cycles int
	cycle  *tree.Cycle // not at its end yet; nil: none
	calls  int         // of the cycle
}

func newStepWriter(once bool, spill func(part []byte) error) *stepWriter {
	w := &stepWriter{o: newObject(spill), once: once}
	w.o.b = append(w.o.b, '{')
	if once {
		w.o.name("contents")
		w.o.b = append(w.o.b, '{')
	}
	return w
}

// TakeContent implements [store.OnceTaker].
func (w *stepWriter) TakeContent(c content.Content) error {
	addContent(w.o, c)
	w.o.next()
	return w.o.err
}

// TakeStep implements [store.StepTaker].
func (w *stepWriter) TakeStep(st *tree.Step) error {
	w.step = st
	if w.once {
		w.o.b = append(w.o.b, '}')
	}
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
	w.o.next()
	return w.o.err
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
	w.o.next()
	return w.o.err
}

func (w *stepWriter) beginCycle(firstCall *record.ActTool) {
	if w.cycles++; w.cycles > 1 {
		w.o.b = append(w.o.b, ',')
	}
	addCycleHead(w.o, cycleViews[w.once], w.cycle, w.step.ID, firstCall)
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

// finish encodes the rest.
func (w *stepWriter) finish() error {
	w.endCycle()
	w.o.b = append(w.o.b, ']')
	addStepEnd(w.o, w.step)
	w.o.b = append(w.o.b, '\n')
	w.o.flush()
	return w.o.err
}
