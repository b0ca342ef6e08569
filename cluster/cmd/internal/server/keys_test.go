package server

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Many clients count at once, and none of their counts is lost.
func TestIncr_Concurrent(t *testing.T) {
	s, f := setup(t)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := s.newClient()
			for range 200 {
				c.say("INCR", "n")
			}
		})
	}
	clients.Wait()
	s.newClient().want(t, "GET n", "$4|1600")
	if n := f.writes.Load(); n > 1600 {
		t.Errorf("%d transactions for 1600 commands", n)
	}
}

// A lock is given back by its owner alone, and a counter ends when it shall, however often it is counted meanwhile.
func TestKeys_LocksAndLimits(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	c.want(t, "SET lock ann NX PX 100000", "+OK")
	c.want(t, "SET lock bob NX PX 100000", "$-1")
	c.want(t, "DELIFEQ lock bob", ":0")
	c.want(t, "DELIFEQ lock ann", ":1")
	c.want(t, "DELIFEQ lock ann", ":0")
	c.want(t, "SET lock bob NX PX 100000", "+OK")

	c.want(t, "INCR hits", ":1")
	c.want(t, "PEXPIRE hits 300", ":1")
	end, err := strconv.ParseInt(strings.Trim(c.say("PEXPIRETIME", "hits"), ":\r\n"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; c.say("INCR", "hits") != ":1\r\n"; n++ { // until it begins again
		if time.Now().UnixMilli() > end+5000 {
			t.Fatalf("after %d counts it has not ended, 5 s behind its time", n)
		}
	}
	if now := time.Now().UnixMilli(); now < end {
		t.Errorf("it ended %d ms early", end-now)
	}
}
