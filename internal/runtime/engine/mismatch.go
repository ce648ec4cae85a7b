package engine

import (
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// mismatchError means that the code of an executor does other things than are on record. The run does nothing, and
// waits for other code.
type mismatchError struct{ runstore.Mismatch }

func (e *mismatchError) Error() string { return e.Message }

// maxMismatch bounds what is kept of how code and record differ, in bytes.
const maxMismatch = 2 << 10

// mismatch makes the handle refuse to go on, because the code does other things than are on record at a row.
func (r *Run) mismatch(at, format string, args ...any) error {
	differs := r.redact(fmt.Sprintf(format, args...))
	err := &mismatchError{runstore.Mismatch{
		At: at, Message: "The code does not go on from the record: " + tool.Cut(differs, maxMismatch) + ".",
	}}
	r.stop(err)
	return err
}

// offRecord makes the handle refuse to go on at a row if an error is an [OffRecordError]; nil: it is another one.
func (r *Run) offRecord(at string, err error) error {
	if off, ok := errors.AsType[*OffRecordError](err); ok {
		return r.mismatch(at, "%v", off)
	}
	return nil
}

// fits returns what notes that the code of this worker fits the record, with the first write with which the run goes
// on; nil: that is known.
func (r *Run) fits() []runstore.RunOp {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fitting {
		return nil
	}
	return []runstore.RunOp{runstore.Fits(r.engine.config.Release)}
}

// noteFits notes that a write with what [Run.fits] returned succeeded.
func (r *Run) noteFits() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fitting = true
}

// maxShown bounds what a mismatch shows of a text, in bytes.
const maxShown = 200

func shortText(text string) string { return tool.Cut(text, maxShown) }
