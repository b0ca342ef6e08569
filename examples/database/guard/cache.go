package main

import (
	"container/list"
	"sync"
)

// A cache keeps the answers to the last names that were asked for.
type cache struct {
	mu      sync.Mutex
	size    int
	recent  list.List // of answer, the last one first
	entries map[string]*list.Element
	changes uint64 // calls of forget
}

// An answer is what is known of a name.
type answer struct {
	name, profile string
	found         bool
}

func newCache(size int) *cache {
	return &cache{size: size, entries: make(map[string]*list.Element, size)}
}

// get returns the answer, if it is there, else the number of changes so far, for put.
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

// put keeps an answer that was looked up after so many changes. If there were more
// since, it may be of before a change, and is dropped.
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

// forget drops the answer to a name that has changed.
func (c *cache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if e := c.entries[name]; e != nil {
		c.recent.Remove(e)
		delete(c.entries, name)
	}
}
