package memtable

import (
	"sync"
	"sync/atomic"
)

// A lock lets one writer or several readers in, for about a microsecond each. Whoever finds it taken looks again and again,
// and is parked only if that takes long. With a sync.RWMutex they were parked at once, and it took 50 to 100 microseconds
// until they ran again. Worse, the mutex was theirs from the moment that it was released, so those that ran had to wait for
// them, and were parked too. This lock is nobody's until somebody takes it.
//
// A writer goes first: readers that come after it wait.
type lock struct {
	state  atomic.Int32 // the number of readers, and writing if there is a writer, or one waits for these readers
	parked atomic.Int32 // goroutines that may be in Wait, changed under mu
	mu     sync.Mutex
	cond   sync.Cond // of mu: state has changed, broadcast only if somebody is parked
}

const (
	writing = 1 << 30
	// looks is how often a goroutine looks at the state before it is parked. They take some 20 microseconds. What takes
	// longer is a large group, or a goroutine that was interrupted when it had the lock.
	looks = 10_000
)

// Lock takes the lock for a writer.
func (l *lock) Lock() {
	l.await(func() bool {
		s := l.state.Load()
		return s < writing && l.state.CompareAndSwap(s, s|writing)
	})
	l.await(func() bool { return l.state.Load() == writing })
}

// RLock takes the lock for a reader.
func (l *lock) RLock() {
	for l.state.Add(1) > writing {
		l.RUnlock()
		l.await(func() bool { return l.state.Load() < writing })
	}
}

// Unlock undoes Lock.
func (l *lock) Unlock() { l.leave(writing) }

// RUnlock undoes RLock.
func (l *lock) RUnlock() { l.leave(1) }

func (l *lock) leave(n int32) {
	l.state.Add(-n)
	if l.parked.Load() > 0 { // whoever is counted after this has not looked at the state yet
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cond.Broadcast()
	}
}

// await returns once done is true.
func (l *lock) await(done func() bool) {
	for range looks {
		if done() {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cond.L = &l.mu
	l.parked.Add(1)
	defer l.parked.Add(-1)
	for !done() {
		l.cond.Wait()
	}
}
