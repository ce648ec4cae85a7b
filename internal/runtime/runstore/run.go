package runstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// The SQLSTATEs of actlog.lease_lost and actlog.form_waits.
const (
	leaseLost = "YA002"
	formWaits = "YA003"
)

// ErrFormWaits means that another form of the tree waits for a human. Nothing was written.
var ErrFormWaits = errors.New("another form waits")

// ErrLeaseLost means that the worker does not hold the run any more: another one does, or it has
// ended. Nothing was written.
var ErrLeaseLost = errors.New("the run has ended, or another worker holds it")

// ErrAsked means that the run should not go on, see [GoesOn]. Nothing was written.
var ErrAsked = errors.New("the run was asked to pause or to stop")

// Desired is what a run should do.
type Desired string

// What a run should do.
const (
	DesiredRun    Desired = "RUN"
	DesiredPause  Desired = "PAUSE"
	DesiredCancel Desired = "CANCEL"
)

// ParentCall is the tool call that started a run.
type ParentCall struct {
	PlanID     string
	StepID     string
	Seq        int64
	ToolCallID string
	Attempt    *int64 // nil: the first
}

// Pinned names a version of a definition.
type Pinned struct {
	ID      string
	Version int
}

// DefaultProject is that of runs that name none.
const DefaultProject = "default"

// Run is a plan that the runtime carries.
type Run struct {
	RootPlanID string
	PlanID     string
	Executor   string
	Name       string // of what is run, such as an agent; may be empty
	Definition Pinned // without an ID if it has none
	Input      json.RawMessage
	Limits     json.RawMessage // nil: none
	Depth      int             // how many runs are above it
	Parent     *ParentCall     // nil for a root
	Owner      string          // for whom it runs, see [NewRun]
	Starter    string          // who began the tree; empty: not known
	Project    string          // of the tree as it began; empty: the default one
	// Priority is from 0 to 9. What is due and has a higher one is taken first.
	Priority  int
	Desired   Desired
	Takeovers int
	Lost      int // how many workers in a row were lost that held it, without a result put on record
	// AwaitsModels says that it waits for a model, or asks one whether it is back, see [Store.ModelWaits].
	AwaitsModels bool
	// Release is that on which it last went on; empty: not known.
	Release string
	// Mismatched says that the code of the last worker did other things than are on record.
	Mismatched bool
	// EndedBefore is when the attempt before the present one ended; zero: it is the first.
	EndedBefore time.Time
	// Anew says that the present attempt makes anew what the code does otherwise than is on record.
	Anew bool
	// AgainOf is the run whose input it has, perhaps changed; empty: none.
	AgainOf string
	// Unread says that messages to it wait.
	Unread bool
	// IDsOf is the plan that the ids of its questions and thoughts follow from, because some are copies of those of
	// another run; empty: its own.
	IDsOf string
	// Changes are what is changed in its definition; nil: nothing. The engine knows their form.
	Changes json.RawMessage
}

// NewRun is a run that is to begin.
type NewRun struct {
	Run
	// Needs is what a worker must provide to take it.
	Needs []string
	// Held says that it does not begin before [Store.Begin] or a resume.
	Held bool
	// Agent is the agent that it is a run of; empty: it is one of several, or of none.
	Agent string
	// ConcurrencyKey bounds how many root runs of its project with the same key go on at once; empty: nothing does.
	ConcurrencyKey string
	// ForkedFrom is the plan, and ForkedAt the row of it, whose model call it makes again; empty: it makes none.
	ForkedFrom, ForkedAt string
	// StartAt is when it may begin, ExpiresAt when it ends if nobody has begun it. Zero: at once, and never.
	StartAt, ExpiresAt time.Time
	// Schedule is that which starts it; empty: none. TickAt is the tick that does; zero: somebody does.
	Schedule string
	TickAt   time.Time
	// IdempotencyKey, if it is set, is that of the request, whose hash is RequestSHA256.
	IdempotencyKey, RequestSHA256 string
	// Asked is what the request had that is not on record otherwise, see [AskedFor]; nil: nothing.
	Asked json.RawMessage
	// By is who started it, if AgainOf is set, or Schedule without TickAt.
	By Who

	queued bool // it begins when the runs of its schedule before it have ended
}

// Lease says which worker holds a run, and since which claim.
type Lease struct {
	RootPlanID, PlanID string
	WorkerID           string
	Epoch              int64
}

// RunOp is what [Store.WriteRun] does beside writing to the record.
type RunOp struct {
	queue  func(q *pgx.Batch, l Lease)
	rings  bool // a worker may have something to do then
	letsGo bool // of the run: perhaps nothing in its tree goes on then
	asked  *Desired
	goesOn bool
	// follows makes a write ask something, and write what follows from the answer. nil: nothing does.
	follows func(*store.OwnedWrite)
	unread  *bool
	hears   *hearing
}

// Asked sets what the run should do, as it is asked for when the write is committed.
func Asked(to *Desired) RunOp { return RunOp{asked: to, queue: func(*pgx.Batch, Lease) {}} }

// Read lets cycles that begin read what was said to the run.
func Read(cycles ...Reading) RunOp {
	return RunOp{hears: &hearing{reads: cycles}, queue: func(*pgx.Batch, Lease) {}}
}

// Heard makes the write fail with [ErrUnread] if a message waits for one of some steps, which it ends.
func Heard(steps ...string) RunOp {
	return RunOp{hears: &hearing{ends: steps}, queue: func(*pgx.Batch, Lease) {}}
}

// Unread sets whether messages to the run wait, as it is when the write is committed.
func Unread(to *bool) RunOp { return RunOp{unread: to, queue: func(*pgx.Batch, Lease) {}} }

// hearingOf returns what all ops together have to do with messages; nil: nothing.
func hearingOf(ops []RunOp) (h *hearing) {
	for _, op := range ops {
		if op.hears == nil {
			continue
		}
		if h == nil {
			h = &hearing{}
		}
		h.ends, h.reads = append(h.ends, op.hears.ends...), append(h.reads, op.hears.reads...)
	}
	return h
}

// GoesOn makes the write fail with [ErrAsked] unless the run should go on.
func GoesOn() RunOp { return RunOp{goesOn: true, queue: func(*pgx.Batch, Lease) {}} }

// Park lets go of the run until a signal, or until a time if it is not zero. If a signal came since
// the run was claimed, the run is due at once.
func Park(until time.Time) RunOp {
	return RunOp{rings: true, letsGo: true, queue: func(q *pgx.Batch, l Lease) {
		q.Queue(db.RunPark, optional.Pointer(until), l.RootPlanID, l.PlanID)
	}}
}

// Mismatch is how the code of a worker does not fit what is on record of a run.
type Mismatch struct {
	At      string // the row of the record, such as call:STEP/SEQ/CALL
	Message string // what differs
}

// NoteMismatch notes that the code does not fit the record. The run needs a worker of a release from now on, that on
// which it last went on; empty: any.
func NoteMismatch(m Mismatch, release string) RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) {
		q.Queue(db.RunMismatch, release, m.Message, m.At, l.RootPlanID, l.PlanID)
	}}
}

// Fits notes that the run goes on with the code of a release: it fits the record.
func Fits(release string) RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) { q.Queue(db.RunFits, release, l.RootPlanID, l.PlanID) }}
}

// Finish ends the run and all below it for good. closes, if it is not nil, returns the changes that end what is still
// live in them once the other changes of the write are on record; it may be called again. Nothing can be written to
// them in between, nor later.
func Finish(closes func([]Live) []record.Change) RunOp {
	op := RunOp{rings: true, letsGo: true, queue: func(q *pgx.Batch, l Lease) {
		q.Queue(db.RunFinish, l.RootPlanID, l.PlanID)
	}}
	if closes != nil {
		op.follows = func(w *store.OwnedWrite) { closeLive(w, closes) }
	}
	return op
}

// Live is a row of a run that has not ended, or of a run below it: a plan, a step, a cycle, a tool call or a wait.
type Live struct {
	Kind    record.Kind
	PlanID  string
	StepID  string
	Seq     int64
	ID      string // of the call or the wait
	Attempt *int64
	State   record.State
	Thinks  bool // the model of the cycle has not answered
	Starts  bool // the call started a plan
}

// Begin adds a run of the same tree, unless it is there.
func Begin(r NewRun) RunOp {
	return RunOp{rings: true, queue: func(q *pgx.Batch, _ Lease) { r.queue(q) }}
}

// Release lets go of the run, which is due at once.
func Release() RunOp {
	return RunOp{rings: true, queue: func(q *pgx.Batch, l Lease) { q.Queue(db.RunRelease, l.RootPlanID, l.PlanID) }}
}

// FormFree fails with [ErrFormWaits] if another form of the tree waits for a human than that of a wait.
func FormFree(waitID string) RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) { q.Queue(db.WaitFormFree, l.RootPlanID, l.PlanID, waitID) }}
}

// Signal says to another run of the tree that something happened that it may wait for.
func Signal(planID string) RunOp {
	return RunOp{rings: true, queue: func(q *pgx.Batch, l Lease) { q.Queue(db.RunSignal, l.RootPlanID, planID) }}
}

// Gain notes that the run put a result on record: the workers that it lost before do not count any more.
func Gain() RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) { q.Queue(db.RunGain, l.RootPlanID, l.PlanID) }}
}

// ClockStart notes that the run begins to work, on a worker of an age. It sets how long the run may work until a limit
// of it, or of a run above it, is reached; it leaves nil if there is none.
func ClockStart(age time.Duration, left **time.Duration) RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) {
		q.Queue(db.RunClockStart, age.Seconds(), l.RootPlanID, l.PlanID, l.WorkerID).QueryRow(func(row pgx.Row) error {
			var seconds *float64
			if err := row.Scan(&seconds); err != nil || seconds == nil {
				return err
			}
			*left = new(time.Duration(*seconds * float64(time.Second)))
			return nil
		})
	}}
}

// ClockStop notes that the run works no more, on a worker of an age.
func ClockStop(age time.Duration) RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) { q.Queue(db.RunClockStop, age.Seconds(), l.RootPlanID, l.PlanID) }}
}

// Applied notes that the run did what it was asked for.
func Applied() RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) { q.Queue(db.ControlApply, l.RootPlanID, l.PlanID) }}
}

func (r NewRun) queue(q *pgx.Batch) *pgx.QueuedQuery {
	parent := optional.Value(r.Parent)
	var seq *int64
	if r.Parent != nil {
		seq = &parent.Seq
	}
	var version *int
	if r.Definition.ID != "" {
		version = &r.Definition.Version
	}

	return q.Queue(db.RunAdd, r.RootPlanID, r.PlanID, r.Executor, optional.Pointer(r.Name),
		optional.Pointer(r.Definition.ID), version, r.Needs, []byte(r.Input), []byte(r.Limits), r.Depth,
		optional.Pointer(parent.PlanID), optional.Pointer(parent.StepID), seq, optional.Pointer(parent.ToolCallID), r.Owner,
		r.Starter, cmp.Or(r.Project, DefaultProject), optional.Pointer(r.IdempotencyKey),
		optional.Pointer(r.RequestSHA256), r.Held, r.queued, optional.Pointer(r.StartAt), parent.Attempt,
		optional.Pointer(r.AgainOf), []byte(r.Asked), r.Priority, optional.Pointer(r.ConcurrencyKey),
		optional.Pointer(r.Agent), optional.Pointer(r.ExpiresAt), optional.Pointer(r.Schedule), optional.Pointer(r.TickAt))
}

// StartedBeforeError means that a request of the same starter with the same idempotency key started a run of the
// project.
type StartedBeforeError struct {
	RootPlanID, PlanID, Executor string
	RequestSHA256                string
}

func (e *StartedBeforeError) Error() string {
	return "the request has started plan " + e.PlanID + " before"
}

// StartRun adds a run, with what is on record of it at first, in one transaction. The error is a
// [*StartedBeforeError] if a request of its starter with its idempotency key started one, a [*record.InvalidError] if a
// change is not valid, or one of [store.Store.Write].
func (s *Store) StartRun(ctx context.Context, r NewRun, changes []record.Change) error {
	err := s.startRun(ctx, r, changes)
	if err != nil {
		return fmt.Errorf("start run %s: %w", r.PlanID, err)
	}
	s.bell.RingNow()
	return nil
}

// startTries is how often a run is added whose request is being made by somebody else at the same moment.
const startTries = 10

func (s *Store) startRun(ctx context.Context, r NewRun, changes []record.Change) error {
	return s.startOnce(ctx, r, func() error { return s.tryStart(ctx, r, changes) })
}

// startOnce starts what a request asks for, unless it was started before.
func (s *Store) startOnce(ctx context.Context, r NewRun, start func() error) error {
	for try := 1; ; try++ {
		if err := s.startedBefore(ctx, r); err != nil {
			return err
		}

		err := start()
		if !errors.Is(err, errNotAdded) || r.IdempotencyKey == "" || try == startTries {
			return err
		}

		// The same request has added one: before, or in the same transaction, which others may not see yet.
		if err := pg.Pause(ctx, time.Duration(try-1)*10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *Store) tryStart(ctx context.Context, r NewRun, changes []record.Change) error {
	added := false
	return s.WriteOwned(ctx, &store.OwnedWrite{
		RootPlanID: r.RootPlanID, Changes: changes,
		Asks: func(q *pgx.Batch) {
			r.queue(q).Exec(func(tag pgconn.CommandTag) error {
				added = tag.RowsAffected() > 0
				return nil
			})
			r.noteBy(q)
		},
		Then: func() ([]record.Change, error) {
			if !added {
				return nil, errNotAdded
			}
			return nil, nil
		},
	})
}

var errNotAdded = errors.New("something is on record of this plan")

func (s *Store) startedBefore(ctx context.Context, r NewRun) error {
	if r.IdempotencyKey == "" {
		return nil
	}

	row, err := read(ctx, s.Reader.DB(), queries.RunByKey, db.RunByKeyParams{
		IdempotencyKey: r.IdempotencyKey, Starter: r.Starter, Project: cmp.Or(r.Project, DefaultProject),
	})
	if errors.Is(err, record.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = s.DB().Settle(ctx)
	}
	if err != nil {
		return err
	}

	return &StartedBeforeError{
		RootPlanID: row.RootPlanID, PlanID: row.PlanID, Executor: row.Executor, RequestSHA256: row.RequestSha256,
	}
}

// WriteRun writes changes to the tree of a run that a worker holds, and does the rest of what ops say,
// in one transaction. The error is [ErrLeaseLost] if the worker does not hold the run any more, [ErrAsked], a
// [*record.InvalidError] if a change is not valid, or one of [store.Store.Write]. After an error of the last
// kind it is not known whether it was written; to do the same again does no harm.
func (s *Store) WriteRun(ctx context.Context, l Lease, changes []record.Change, ops ...RunOp) error {
	err := s.writeRun(ctx, l, changes, ops, true)
	if errors.Is(err, ErrUnread) { // which of its messages are for this write is asked only now
		err = s.writeRun(ctx, l, changes, ops, false)
	}
	if err != nil {
		return fmt.Errorf("write run %s: %w", l.PlanID, err)
	}

	if slices.ContainsFunc(ops, func(op RunOp) bool { return op.rings }) {
		s.bell.RingNow()
	}
	return nil
}

// writeRun is one try. quiet says that it fails if messages to the run wait that concern one of the ops.
func (s *Store) writeRun(ctx context.Context, l Lease, changes []record.Change, ops []RunOp, quiet bool) error {
	w := &store.OwnedWrite{
		RootPlanID: l.RootPlanID, Hold: &store.Hold{PlanID: l.PlanID, HolderID: l.WorkerID, Epoch: l.Epoch}, Fence: hold,
		Changes: changes,
	}

	w.Last = func(q *pgx.Batch) {
		for _, op := range ops {
			op.queue(q, l)
		}
		if slices.ContainsFunc(ops, func(op RunOp) bool { return op.letsGo }) {
			q.Queue(db.RunIdle, l.RootPlanID)
		}
	}

	if h := hearingOf(ops); h != nil {
		if w.Hold.Quiet = quiet; !quiet {
			h.ask(w)
		}
	}
	for _, op := range ops {
		if op.follows != nil {
			op.follows(w)
		}
	}
	if slices.ContainsFunc(ops, func(op RunOp) bool { return op.goesOn }) {
		w.Hold.Wanted = string(DesiredRun)
	}

	err := s.WriteOwned(ctx, w)
	refused := errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrAsked)
	switch {
	case refused && errors.Is(err, record.ErrUnavailable): // perhaps because it was written before
		return fmt.Errorf("%w: the connection was lost during the commit", record.ErrUnavailable)
	case pg.State(err) == formWaits:
		return ErrFormWaits
	case err != nil && !errors.Is(err, ErrAsked):
		return err
	}

	for _, op := range ops {
		if op.asked != nil {
			*op.asked = Desired(w.Hold.Desired)
		}
		if op.unread != nil {
			*op.unread = w.Hold.Unread
		}
	}
	return err
}

// hold is the fence of workers.
func hold(q *pgx.Batch, writes []*store.OwnedWrite) {
	var runs db.RunHoldParams
	for _, w := range writes {
		runs.RootPlanIds, runs.PlanIds = append(runs.RootPlanIds, w.RootPlanID), append(runs.PlanIds, w.Hold.PlanID)
		runs.WorkerIds, runs.Epochs = append(runs.WorkerIds, w.Hold.HolderID), append(runs.Epochs, w.Hold.Epoch)
		runs.Wanted, runs.Quiet = append(runs.Wanted, w.Hold.Wanted), append(runs.Quiet, w.Hold.Quiet)
	}

	fence := q.Queue(db.RunHold, runs.RootPlanIds, runs.PlanIds, runs.WorkerIds, runs.Epochs, runs.Wanted, runs.Quiet)
	fence.Query(func(rows pgx.Rows) error {
		held := make([]bool, len(writes))
		var place int64
		var desired string
		var unread bool
		_, err := pgx.ForEachRow(rows, []any{&place, &desired, &unread}, func() error {
			held[place-1], writes[place-1].Hold.Desired = true, desired
			writes[place-1].Hold.Unread = unread
			return nil
		})

		if pg.State(err) == leaseLost {
			for i, w := range writes {
				switch {
				case !held[i]:
					w.Err = ErrLeaseLost
				case w.Hold.Wanted != "" && w.Hold.Wanted != w.Hold.Desired:
					w.Err = ErrAsked
				case w.Hold.Quiet && w.Hold.Unread:
					w.Err = ErrUnread
				}
			}
		}
		return err
	})
}

// closeLive makes a write end what is live in its run, and in those below it, with the changes that closes returns.
func closeLive(w *store.OwnedWrite, closes func([]Live) []record.Change) {
	var live []db.RunLiveRow
	addAsks(w, func(q *pgx.Batch) {
		q.Queue(db.RunLive, w.Hold.PlanID, w.RootPlanID).Query(func(rows pgx.Rows) (err error) {
			live, err = pgx.CollectRows(rows, pgx.RowToStructByPos[db.RunLiveRow])
			return err
		})
	}, func() ([]record.Change, error) {
		return closes(all(live, func(r db.RunLiveRow) Live {
			l := Live{
				Kind: record.Kind(r.Kind), PlanID: r.PlanID, StepID: r.StepID, Seq: int64(r.Seq), ID: r.ID,
				State: record.State(r.State), Thinks: r.Thinks, Starts: r.Starts,
			}
			if r.Attempt != nil {
				l.Attempt = new(int64(*r.Attempt))
			}
			return l
		})), nil
	})
}

// SuspectWaits reports whether a run that is to be carried alone has been due for some time, because no worker that
// carries nothing else took it, and this worker is the one that makes room for it.
func (s *Store) SuspectWaits(ctx context.Context, workerID string, loneAt int, due time.Duration) (bool, error) {
	waits, err := queries.RunSuspect(ctx, s.DB(), db.RunSuspectParams{
		WorkerID: workerID, Seconds: due.Seconds(), LoneAt: int32(loneAt),
	})
	if err != nil {
		return false, fmt.Errorf("look for runs to carry alone: %w", pg.Translate(err))
	}
	return waits, nil
}

// RunArtifact returns the value of an artifact that a root run produced. The error is [record.ErrNotFound] if it
// produced none of that name, or if the plan is none of the runtime: artifacts that were only recorded are not found.
func (s *Store) RunArtifact(ctx context.Context, rootPlanID, name string) (json.RawMessage, error) {
	params := db.RunArtifactParams{RootPlanID: rootPlanID, Name: name}
	value, err := read(ctx, s.Reader.DB(), queries.RunArtifact, params)
	if err != nil {
		return nil, fmt.Errorf("read artifact %s of run %s: %w", name, rootPlanID, err)
	}
	return value, nil
}

// Used is what a run and all below it have used.
type Used struct {
	Tokens  int64 // in and out
	CostUSD float64
	// UnpricedModel is a model of its calls without a price; empty: there is none, or it was not asked for.
	UnpricedModel string
	UnpricedBelow string // the error of a run below whose model has no price; empty: there is none
}

// RunUsed returns what a run and all below it have used. costs says that it is to look for calls without a price, but
// for those of models that are allowed to have none: their names begin so.
func (s *Store) RunUsed(ctx context.Context, rootPlanID, planID string, costs bool, allowed ...string) (Used, error) {
	params := db.RunUsedParams{
		RootPlanID: rootPlanID, PlanID: planID, Costs: costs, Allowed: append([]string{}, allowed...),
	}
	used, err := read(ctx, s.Reader.DB(), queries.RunUsed, params)
	if err != nil {
		return Used{}, fmt.Errorf("read what run %s has used: %w", planID, err)
	}
	return Used(used), nil
}

// OpenCount is how many runs of an executor have not ended, and are in a state.
type OpenCount struct {
	Executor string
	State    record.State
	Runs     int64
}

// OpenRuns counts the runs that have not ended.
func (s *Store) OpenRuns(ctx context.Context) (open []OpenCount, err error) {
	rows, err := pg.Read(ctx, s.Reader.DB(), func() ([]db.RunOpenCountsRow, error) {
		return queries.RunOpenCounts(ctx, s.Reader.DB())
	})
	if err != nil {
		return nil, fmt.Errorf("count open runs: %w", err)
	}

	return all(rows, func(r db.RunOpenCountsRow) OpenCount {
		return OpenCount{Executor: r.Executor, State: record.State(r.State), Runs: r.Runs}
	}), nil
}

// ListenForRuns wakes workers when a run may be due, or should stop, until ctx ends: it leaves a token in wake.
// One that does not listen, or is not heard, finds it when it looks.
func (s *Store) ListenForRuns(ctx context.Context, wake chan<- struct{}) { s.bell.Listen(ctx, wake) }

// noteBy notes who started a run as another one again, or of a row of another one, or ran its schedule.
func (r *NewRun) noteBy(q *pgx.Batch) {
	action := runAction
	switch {
	case r.ForkedFrom != "":
		action = forkAction
		q.Queue(db.RunFork, &r.ForkedFrom, &r.ForkedAt, r.PlanID, nil, r.RootPlanID, r.PlanID)
	case r.AgainOf != "":
		action = againAction
	case r.Schedule == "" || !r.TickAt.IsZero():
		return
	}
	q.Queue(db.ControlAdd, string(action), optional.Pointer(r.By.Name), optional.Pointer(r.By.Claim), nil, nil,
		r.RootPlanID, r.PlanID)
}
