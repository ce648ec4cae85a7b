package treesitter

import "context"

// Bounds of what the process holds.
const (
	atOnce   = 4        // texts that are parsed at the same time, each in at most maxMemory
	maxIdle  = 2        // instances of a language that wait for the next text
	maxGrown = 64 << 20 // bytes of memory of an instance that is kept; memory of WebAssembly never shrinks
)

// working has a place for each text that is parsed.
var working = make(chan struct{}, atOnce)

// idle has the instances of each language that nobody uses.
var idle = func() (all [languages]chan *instance) {
	for l := range all {
		all[l] = make(chan *instance, maxIdle)
	}
	return all
}()

// take returns an instance that nobody else uses until it is given back. It waits for its turn.
func take(ctx context.Context, l Language) (*instance, error) {
	select {
	case working <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case i := <-idle[l]:
		return i, nil
	default:
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
	defer func() { <-working }()
	if !failed && i.memory.Size() <= maxGrown {
		select {
		case idle[i.grammar.language] <- i:
			return
		default:
		}
	}
	i.close()
}
