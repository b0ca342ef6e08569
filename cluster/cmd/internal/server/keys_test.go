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

// An end that the store can't keep is its last one, whatever sets it. In a group too, where a batch has times to live alone.
func TestKeys_FarthestEnd(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	for _, line := range []string{
		"SET a 1 PXAT 9223372036854775807", "SET a 1 EX 9000000000000000", "SETEX a 9000000000000000 1", "PSETEX a 9000000000000000000 1",
		"GETEX a PX 9000000000000000000", "PEXPIREAT a 9223372036854775807", "EXPIRE a 9000000000000000",
	} {
		c.say("SET", "a", "1")
		c.say(strings.Fields(line)...)
		c.want(t, "PEXPIRETIME a", ":281474976710655")
	}
	for line, want := range map[string]kind{"SETEX a 9223372036 1": puts, "SETEX a 9223372037 1": updates, "PSETEX a 9223372036855 1": updates} {
		args := bytesOf(strings.Fields(line)...)
		if got := kindOf(lookUp(args[0]), args[1:]); got != want {
			t.Errorf("%s goes as kind %d, want %d", line, got, want)
		}
	}
}

// SET and DELEX do nothing unless the string that is there is as they want it. The digests are those of Redis 8.4.
func TestKeys_Conditions(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	for _, test := range []struct{ line, reply string }{
		{"DIGEST a", "$-1"},
		{"SET a 1 IFEQ 1", "$-1"},
		{"SET a 1 IFDEQ 0", "$-1"},
		{"DELEX a IFNE 1", ":0"},
		{"SET a 1 IFNE 1", "+OK"}, // what is not there is not 1
		{"SET a 2 IFNE 1", "$-1"},
		{"SET a 2 ifne 0 GET", "$1|1"},
		{"SET a 3 IFEQ 1 GET", "$1|2"},
		{"GET a", "$1|2"},
		{"SET a hello EX 100 IFEQ 2", "+OK"},
		{"TTL a", ":100"},
		{"DIGEST a", "$16|9555e8555c62dcfd"},
		{"SET a x IFDNE 9555e8555c62dcfd", "$-1"},
		{"SET a world IFDEQ 9555E8555C62DCFD KEEPTTL", "+OK"},
		{"TTL a", ":100"},
		{"DELEX a IFEQ hello", ":0"},
		{"DELEX a IFDEQ 9555e8555c62dcfd", ":0"},
		{"DELEX a IFNE world", ":0"},
		{"DELEX a IFDNE 9555e8555c62dcfd", ":1"},
		{"SET a x IFDNE 9555e8555c62dcfd", "+OK"},
		{"DELEX a IFDEQ what", "-ERR a digest is 16 hexadecimal digits, as DIGEST returns it"},
		{"SET a y IFDNE 10000000000000000", "-ERR a digest is 16 hexadecimal digits, as DIGEST returns it"},
		{"SET a y IFEQ x XX", "-ERR syntax error"},
		{"SET a y IFEQ x IFNE y", "-ERR syntax error"},
		{"SET a y IFEQ", "-ERR syntax error"},
		{"DELEX a IFEQ", "-ERR syntax error"},
		{"DELEX a XX x", "-ERR syntax error"},
		{"DELEX a IFEQ x y", "-ERR syntax error"},
		{"DELEX a", ":1"},
		{"DELEX a", ":0"},
		{"BF.ADD f a", ":1"},
		{"DIGEST f", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"DELEX f IFNE x", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"DELEX f", ":1"},
		{"SETBIT long 40000 1", ":0"},
		{"APPEND long x", ":5002"},
		{"DELEX long IFDNE 0", ":1"},
		{"EXISTS long", ":0"},
	} {
		c.want(t, test.line, test.reply)
	}
	c.say("SET", "a", "Hello world")
	c.want(t, "DIGEST a", "$16|b6acb9d84a38ff74")
}
