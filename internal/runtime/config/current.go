package config

import (
	"errors"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
)

// ErrClosed says that a Current was closed.
var ErrClosed = errors.New("configuration is closed")

// Current keeps the parts of the configuration that is in force. Its methods may be called at the
// same time.
type Current struct {
	path      string
	options   Options
	reloading sync.Mutex // one at a time

	mu      sync.Mutex
	inForce *generation        // nil after Close
	vectors define.VectorStore // nil: none
	loads   define.Loads
}

// generation is one configuration. It is open as long as it has users; being in force counts as one.
type generation struct {
	parts *Parts
	users int
}

// Open loads the configuration file, and opens it. Close the Current at the end.
func Open(path string, o Options) (*Current, error) {
	c := &Current{path: path, options: o}
	g, err := c.load(nil)
	if err != nil {
		return nil, err
	}
	c.inForce = g
	c.loads.Loaded, c.loads.Held = time.Now(), 1
	return c, nil
}

func (c *Current) load(before *Parts) (*generation, error) {
	config, err := Load(c.path, c.options)
	if err != nil {
		return nil, err
	}
	parts, err := config.open(before)
	if err != nil {
		return nil, err
	}
	return &generation{parts: parts, users: 1}, nil
}

// StoreVectors lets the embedder's vectors be kept in a store, where other workers find them.
func (c *Current) StoreVectors(in define.VectorStore) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vectors = in
	if c.inForce != nil {
		c.inForce.parts.storeVectors(in)
	}
}

// Use returns the parts that are in force. They stay open until release is called, once or more often,
// also when another configuration comes into force or the Current is closed.
func (c *Current) Use() (parts *Parts, release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inForce == nil {
		return nil, nil, ErrClosed
	}

	g := c.inForce
	g.users++
	return g.parts, sync.OnceFunc(func() { c.release(g) }), nil
}

// Configured implements [define.Configuration].
func (c *Current) Configured() (in *define.Configured, release func(), err error) {
	p, release, err := c.Use()
	if err != nil {
		return nil, nil, err
	}
	return p.configured(), release, nil
}

// Reload loads the file again. If that is not possible, the configuration before stays in force, and
// the error says why.
func (c *Current) Reload() error {
	c.reloading.Lock()
	defer c.reloading.Unlock()

	before, release, err := c.Use()
	if err != nil {
		return err
	}
	defer release()

	g, err := c.load(before)
	c.mu.Lock()
	if err != nil {
		c.loads.Failures++
		c.loads.Stale = true
		c.mu.Unlock()
		return err
	}

	old := c.inForce
	if old == nil { // closed meanwhile
		c.mu.Unlock()
		g.parts.Close()
		return ErrClosed
	}

	c.inForce = g
	g.parts.storeVectors(c.vectors)
	c.loads.Reloads++
	c.loads.Stale = false
	c.loads.Held++
	c.loads.Loaded = time.Now()
	c.mu.Unlock()

	c.release(old)
	return nil
}

// release gives up one use of a configuration, and closes it after the last.
func (c *Current) release(g *generation) {
	c.mu.Lock()
	g.users--
	last := g.users == 0
	if last {
		c.loads.Held--
	}
	c.mu.Unlock()

	if last {
		g.parts.Close()
	}
}

// Loads implements [define.Configuration].
func (c *Current) Loads() define.Loads {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loads
}

// Close puts the configuration out of force. What runs still use stays open until they release it.
func (c *Current) Close() {
	c.mu.Lock()
	g := c.inForce
	c.inForce = nil
	c.mu.Unlock()
	if g != nil {
		c.release(g)
	}
}
