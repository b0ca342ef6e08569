package memtable

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shaledb/shale/internal/base"
)

// TestAdd_LeavesReadersRoom reads between the Adds of one large group. The lock is always
// free, and at most stageSize entries have come since the read before. This holds for a large
// value too, although its copy takes long.
func TestAdd_LeavesReadersRoom(t *testing.T) {
	m := New(Options{Size: 1 << 20})
	defer m.Release()
	last := 0
	m.BeginWrite()
	for i := range 10 * stageSize {
		value := []byte("v")
		if i%500 == 499 {
			value = make([]byte, 2*chunkSize)
		}
		m.Add(base.Seq(i+1), base.KindPut, fmt.Appendf(nil, "key%06d", i), value)
		if m.mu.state.Load() != 0 {
			t.Fatalf("entry %d: the writer keeps readers out between two Adds", i)
		}
		if n := m.Len(); n-last > stageSize {
			t.Fatalf("entry %d: %d entries came under one lock, want at most %d", i, n-last, stageSize)
		} else {
			last = n
		}
	}
	m.EndWrite()
	if n := m.Len(); n-last > stageSize {
		t.Errorf("%d entries came under the last lock, want at most %d", n-last, stageSize)
	}
	if m.Len() != 10*stageSize || m.LastSeq() != 10*stageSize || m.firstSeq() != 1 {
		t.Errorf("in the end: %v", m)
	}
}

// TestLock_KeepsOthersOut has writers change two numbers, which readers find equal. The holders let others run meanwhile.
func TestLock_KeepsOthersOut(t *testing.T) {
	const goroutines, rounds = 3, 3000
	var l lock
	var a, b int
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				l.Lock()
				a++
				runtime.Gosched()
				b++
				l.Unlock()
			}
		})
		wg.Go(func() {
			for range rounds {
				l.RLock()
				before := a
				runtime.Gosched()
				if a != before || b != a {
					t.Errorf("a reader finds %d, then %d and %d", before, a, b)
				}
				l.RUnlock()
			}
		})
	}
	wg.Wait()
	if a != goroutines*rounds || b != a || l.state.Load() != 0 || l.parked.Load() != 0 {
		t.Errorf("in the end %d and %d, want %d of both; state %d, %d parked", a, b, goroutines*rounds, l.state.Load(), l.parked.Load())
	}
}

// TestLock_Parked keeps the lock until all others are parked. They wake up, the writer before the readers.
func TestLock_Parked(t *testing.T) {
	for _, c := range []struct {
		name            string
		acquire, giveUp func(*lock)
	}{
		{"a reader", (*lock).RLock, (*lock).RUnlock},
		{"a writer", (*lock).Lock, (*lock).Unlock},
	} {
		t.Run("behind "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l lock
				var order []string
				c.acquire(&l)
				go func() {
					l.Lock()
					order = append(order, "writer")
					l.Unlock()
				}()
				synctest.Wait() // until it is parked
				for range 3 {
					go func() {
						l.RLock()
						defer l.RUnlock()
						if len(order) != 1 && c.name == "a reader" {
							t.Error("a reader did not wait for the writer that came before it")
						}
					}()
				}
				synctest.Wait()
				if n := l.parked.Load(); n != 4 {
					t.Errorf("%d goroutines are parked, want 4", n)
				}
				c.giveUp(&l)
				synctest.Wait()
				if s, n := l.state.Load(), l.parked.Load(); len(order) != 1 || s != 0 || n != 0 {
					t.Errorf("after all have had the lock: %q; state %d, %d parked", order, s, n)
					wake(&l)
				}
			})
		})
	}
}

// TestLock_UnlockedBeforeParked frees the lock between the last look of a goroutine and its parking. It is woken all the same.
func TestLock_UnlockedBeforeParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lock
		l.Lock()
		looked, over := 0, false
		go func() {
			l.await(func() bool {
				if looked++; looked == looks+1 {
					go l.Unlock()
					for n := 0; l.state.Load() != 0 || n < 1000; n++ { // until Unlock waits to wake somebody, or has seen nobody
						runtime.Gosched()
					}
				}
				return looked > looks+1 && l.state.Load() == 0
			})
			over = true
		}()
		synctest.Wait()
		if !over {
			t.Error("it stays parked, although nobody has the lock")
			wake(&l)
		}
	})
}

// wake wakes whoever is parked, so that a test that has failed ends.
func wake(l *lock) {
	for l.state.Load() != 0 || l.parked.Load() != 0 {
		l.cond.Broadcast()
		synctest.Wait()
	}
}
