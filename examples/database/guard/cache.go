package main

import (
	"container/list"
	"sync"
)

// A cache keeps the answers for the names that were asked for last.
type cache struct {
	mu      sync.Mutex
	size    int
	recent  list.List // of answer; the last one that was used is the first
	entries map[string]*list.Element
	changes uint64 // number of calls of forget
}

// An answer is what the database knows about a name.
type answer struct {
	name, profile string
	found         bool
}

func newCache(size int) *cache {
	return &cache{size: size, entries: make(map[string]*list.Element, size)}
}

// get returns the answer for a name, if the cache has it. Otherwise it returns the
// number of changes so far, for put.
func (c *cache) get(name string) (a answer, ok bool, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[name]
	if e == nil {
		return answer{}, false, c.changes
	}
	c.recent.MoveToFront(e)
	return e.Value.(answer), true, c.changes
}

// put keeps an answer that was looked up after get returned changes. If there were more
// changes since then, the answer may be older than one of them, and put drops it.
func (c *cache) put(a answer, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changes != c.changes || c.entries[a.name] != nil {
		return
	}
	c.entries[a.name] = c.recent.PushFront(a)
	if c.recent.Len() > c.size {
		last := c.recent.Remove(c.recent.Back()).(answer)
		delete(c.entries, last.name)
	}
}

// forget removes the answer for a name whose row has changed. A lookup that has begun
// before will not be kept either: see put.
func (c *cache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if e := c.entries[name]; e != nil {
		c.recent.Remove(e)
		delete(c.entries, name)
	}
}
