package server

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// Clients that write one key at the same time share transactions, and each gets its own answer and its own error.
func TestCombine_OneTransaction(t *testing.T) {
	s, f := setup(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := func(write bool) error {
		once.Do(func() {
			close(begun)
			<-goOn
		})
		return nil
	}
	f.fail.Store(&first)
	replies := make([]string, 21)
	var clients sync.WaitGroup
	add := func(i int) {
		clients.Go(func() { replies[i] = s.newClient().say("BF.ADD", "f", fmt.Sprint("item ", i)) })
	}
	add(0)
	<-begun // its transaction has begun, and the others wait for it
	for i := range 20 {
		add(1 + i)
	}
	lane := s.lanes.of([]byte("f"))
	for waiting := 0; waiting < 20; {
		lane.mu.Lock()
		waiting = len(lane.waiting)
		lane.mu.Unlock()
	}
	close(goOn)
	clients.Wait()
	for i, reply := range replies {
		if reply != ":1\r\n" {
			t.Errorf("client %d: %q", i, reply)
		}
	}
	if n := f.writes.Load(); n != 2 {
		t.Errorf("%d transactions, want 2", n)
	}
	s.newClient().want(t, "BF.CARD f", ":21")

	unknown := func(bool) error { return errUnknown }
	f.fail.Store(&unknown)
	s.newClient().want(t, "BF.ADD f another", "-UNKNOWN nobody knows")
}

// If the store refuses a transaction of several clients, each is done alone, and only the one gets an error whose own is
// refused.
func TestCombine_OwnErrors(t *testing.T) {
	s, f := setup(t)
	var calls atomic.Int64
	refused := errors.New("too large")
	second := func(bool) error { // of the transactions of both, of the first and of the second
		if calls.Add(1) == 2 {
			return nil
		}
		return refused
	}
	f.fail.Store(&second)
	var turns []*turn
	for _, name := range []string{"one", "two"} {
		turns = append(turns, &turn{c: s.newClient(), calls: []call{{lookUp([]byte("INCR")), bytesOf(name)}}})
	}
	s.do(turns)
	if turns[0].err != nil || string(turns[0].c.Out) != ":1\r\n" || !errors.Is(turns[1].err, refused) {
		t.Errorf("the errors are %v and %v, the reply %q", turns[0].err, turns[1].err, turns[0].c.Out)
	}
	f.fail.Store(nil)
	s.newClient().want(t, "MGET one two", "*2|$1|1|$-1")
}
