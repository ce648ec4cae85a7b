package treesitter

import (
	"context"
	"sync"
)

// Bounds of what the process holds.
const (
	atOnce   = 4        // texts that are parsed at the same time, each in at most maxMemory
	maxIdle  = 2        // instances of a language that wait for the next text
	maxGrown = 64 << 20 // bytes of memory of an instance that is kept; memory of WebAssembly never shrinks
)

// working has a place for each text that is parsed.
var working = make(chan struct{}, atOnce)

// pool has the instances of a language that nobody uses.
type pool struct {
	sync.Mutex
	idle []*instance
}

var pools [languages]pool

// take returns an instance that nobody else uses until it is given back. It waits for its turn.
func take(ctx context.Context, l Language) (*instance, error) {
	select {
	case working <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if i := pools[l].pop(); i != nil {
		return i, nil
	}

	g, err := theGrammars[l]()
	if err == nil {
		var i *instance
		if i, err = newInstance(g); err == nil {
			return i, nil
		}
	}
	<-working
	return nil, err
}

// give ends what take began. An instance that failed is not used again.
func give(i *instance, failed bool) {
	if failed || i.memory.Size() > maxGrown || !pools[i.grammar.language].push(i) {
		i.close()
	}
	<-working
}

func (p *pool) pop() *instance {
	p.Lock()
	defer p.Unlock()

	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	i := p.idle[last]
	p.idle = p.idle[:last]
	return i
}

func (p *pool) push(i *instance) bool {
	p.Lock()
	defer p.Unlock()
	if len(p.idle) == maxIdle {
		return false
	}
	p.idle = append(p.idle, i)
	return true
}
