package otlp

import "github.com/actlog/actlog/record"

// made is what is remembered of the rows that were made.
type made struct {
	plans map[string]record.Plan
	steps map[string]madeStep
	live  bool // some row has not ended
}

// madeStep is a step without its cycles, and where it is.
type madeStep struct {
	step
	plan, parent string
	index        int64
	cycles       []madeCycle
	live         bool // some row of its cycles and calls has not ended
}

// madeCycle is a cycle, and its calls in their order.
type madeCycle struct {
	mark  uint64
	calls []madeCall
	live  bool
}

type madeCall struct {
	id   string
	mark uint64
}

// gone returns the keys of the rows that are not made any more.
func (m *made) gone(now *made, root string) (keys []record.Key) {
	for id := range m.plans {
		if _, ok := now.plans[id]; !ok {
			keys = append(keys, record.Key{Kind: record.KindPlan, Root: root, ID: id})
		}
	}

	for id, s := range m.steps {
		present, ok := now.steps[id]
		if !ok {
			keys = append(keys, record.Key{Kind: record.KindAgentExecution, Root: root, ID: id})
		}
		if ok && present.mark == s.mark {
			continue
		}

		for seq, c := range s.cycles {
			calls := map[string]bool{}
			switch {
			case seq >= len(present.cycles):
				keys = append(keys, record.Key{Kind: record.KindThinkAct, Root: root, Parent: id, Seq: int64(seq)})
			case present.cycles[seq].mark == c.mark:
				continue
			default:
				for _, call := range present.cycles[seq].calls {
					calls[call.id] = true
				}
			}

			for _, call := range c.calls {
				if !calls[call.id] {
					keys = append(keys, record.Key{Kind: record.KindActTool, Root: root, Parent: id, Seq: int64(seq), ID: call.id})
				}
			}
		}
	}
	return keys
}
