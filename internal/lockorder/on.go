//go:build invariants

package lockorder

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
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
	note(func(h []Lock) []Lock { return append(h, l) })
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
	note(func(held []Lock) []Lock {
		for _, h := range held {
			if later := h.rank() >= l.rank(); later && l.rank() < (Leaf{}).rank() {
				fail(fmt.Sprintf("lockorder: %T is taken under %T", l, h))
			}
		}
		return append(held, l)
	})
}

// Leave notes that it gives the lock up.
func Leave[L Lock]() {
	var l L
	note(func(held []Lock) []Lock {
		i := len(held) - 1
		for i >= 0 && held[i].rank() != l.rank() {
			i--
		}
		if i < 0 {
			fail(fmt.Sprintf("lockorder: %T is given up by a goroutine that has not taken it", l))
		}
		return slices.Delete(held, i, i+1)
	})
}

// held has, for each goroutine that holds locks, which these are.
var held sync.Map // of a goroutine's number to []Lock

// note changes what the goroutine holds.
func note(change func(held []Lock) []Lock) {
	var buf [64]byte
	stack := buf[len("goroutine "):runtime.Stack(buf[:], false)]
	id, err := strconv.ParseUint(string(stack[:bytes.IndexByte(stack, ' ')]), 10, 64)
	if err != nil {
		panic(err)
	}
	now, _ := held.Load(id)
	list, _ := now.([]Lock)
	if list = change(list); len(list) == 0 {
		held.Delete(id)
	} else {
		held.Store(id, list)
	}
}
