package server

import (
	"fmt"
	"strings"
	"sync"
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

// If the store refuses a transaction of several clients, only the one gets an error whose commands it refuses.
func TestCombine_OwnErrors(t *testing.T) {
	s, _ := setup(t)
	good, bad := s.newClient(), s.newClient()
	turnOf := func(c *client, args ...string) *turn {
		c.Out = c.Out[:0]
		return &turn{c: c, calls: []call{{commands.LookUp([]byte(args[0])), bytesOf(args[1:]...)}}}
	}
	tooLarge := strings.Repeat("x", 65<<20)
	turns := []*turn{turnOf(good, "BF.ADD", "f", "a"), turnOf(bad, "SET", "f2", tooLarge, "XX", "GET"), turnOf(good, "BF.ADD", "f", "b")}
	bad.say("SET", "f2", "small")
	s.do(turns[:2])
	if turns[0].err != nil || string(good.Out) != ":1\r\n" || turns[1].err == nil {
		t.Errorf("the errors are %v and %v, the reply %q", turns[0].err, turns[1].err, good.Out)
	}
	s.newClient().want(t, "GET f2", "$5|small")
	s.newClient().want(t, "BF.CARD f", ":1")
}
