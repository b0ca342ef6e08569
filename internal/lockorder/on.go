//go:build lockorder

package lockorder

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// A Mutex is a lock that has a place in the order. The zero value is unlocked.
type Mutex[L Lock] struct{ mu sync.Mutex }

// fail ends the process: a panic might be survived, and what it left locked would hang. A test has it panic.
var fail = func(text string) {
	fmt.Fprintf(os.Stderr, "%s\n\n%s", text, debug.Stack())
	os.Exit(2)
}

// Lock locks m. It ends the process if the goroutine holds m, or a lock that is taken after m.
func (m *Mutex[L]) Lock() {
	Enter[L]()
	m.mu.Lock()
}

// TryLock tries to lock m and reports whether it has. It can't wait, so the order does not matter.
func (m *Mutex[L]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	var l L
	locks.take(l)
	return true
}

// Unlock unlocks m, on the goroutine that has locked it.
func (m *Mutex[L]) Unlock() {
	m.mu.Unlock()
	Leave[L]()
}

// Enter notes that the goroutine takes a lock that is not a Mutex. It ends the process as Lock does.
func Enter[L Lock]() {
	var l L
	if last := locks.take(l); last != nil && l.rank() < (Leaf{}).rank() && last.rank() >= l.rank() && !nested(string(debug.Stack())) {
		fail(fmt.Sprintf("lockorder: %T is taken under %T", l, last))
	}
}

// Leave notes that it gives the lock up.
func Leave[L Lock]() {
	var l L
	if !locks.give(l) {
		fail(fmt.Sprintf("lockorder: %T is given up by a goroutine that has not taken it", l))
	}
}

// nested reports whether a test stands between two parts of a stack, whose lines are as those of debug.Stack: the file
// system of a test uses another store while it is called, and each store has locks of its own.
func nested(stack string) bool {
	below := "" // what calls what was seen last
	for line := range strings.Lines(stack) {
		file, ok := strings.CutPrefix(line, "\t")
		if !ok || strings.Contains(file, "/internal/lockorder/") || strings.Contains(file, "/src/testing/") || strings.Contains(file, "/src/runtime/") {
			continue
		}
		now := "store"
		if strings.Contains(file, "_test.go:") || strings.Contains(file, "/test/") {
			now = "test"
		}
		if now == "store" && below == "test" {
			return true
		}
		below = now
	}
	return false
}

// locks knows which locks each goroutine holds. It allocates nothing once it has run for a while, since tests count
// what a store allocates.
var locks = holders{held: make(map[uint64][]Lock)}

type holders struct {
	mu   sync.Mutex
	buf  [64]byte
	held map[uint64][]Lock // by the number of a goroutine that holds some
	free [][]Lock          // slices to be used again
}

// goroutine returns the number of the goroutine. Requires: mu is held.
func (h *holders) goroutine() (id uint64) {
	for _, c := range h.buf[len("goroutine "):runtime.Stack(h.buf[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		id = id*10 + uint64(c-'0')
	}
	return id
}

// take notes that the goroutine takes l, and returns the last in the order of those that it held, or nil.
func (h *holders) take(l Lock) (last Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.goroutine()
	list := h.held[id]
	for _, other := range list {
		if last == nil || other.rank() > last.rank() {
			last = other
		}
	}
	if list == nil && len(h.free) > 0 {
		list, h.free = h.free[len(h.free)-1], h.free[:len(h.free)-1]
	}
	h.held[id] = append(list, l)
	return last
}

// give notes that the goroutine gives l up, and reports whether it had it.
func (h *holders) give(l Lock) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.goroutine()
	list := h.held[id]
	for i, other := range list {
		if other.rank() == l.rank() {
			if list = slices.Delete(list, i, i+1); len(list) > 0 {
				h.held[id] = list
			} else {
				delete(h.held, id)
				h.free = append(h.free, list)
			}
			return true
		}
	}
	return false
}
