package server

import (
	"fmt"
	"strings"
	"testing"
)

// A SCAN gives each key that is there all the time once, while others come and go.
func TestScan_Changes(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	for i := range 300 {
		c.say("SET", fmt.Sprintf("k%03d", i), "x")
	}
	seen := make(map[string]int)
	cursor := "0"
	for step := 0; ; step++ {
		words := strings.Fields(c.say("SCAN", cursor, "COUNT", "7", "MATCH", "k*"))
		for i := 4; i+1 < len(words); i += 2 {
			seen[words[i+1]]++
		}
		if cursor = words[2]; cursor == "0" {
			break
		}
		c.say("DEL", fmt.Sprintf("k%03d", 2*step), fmt.Sprintf("new%d", step-1))
		c.say("SET", fmt.Sprintf("new%d", step), "x")
	}
	for i := 1; i < 300; i += 2 {
		if n := seen[fmt.Sprintf("k%03d", i)]; n != 1 {
			t.Errorf("SCAN gave k%03d %d times", i, n)
		}
	}
}

// The server forgets cursors, the oldest first, by their number and by their bytes. All of them fit into a
// floating-point number.
func TestScan_Cursors(t *testing.T) {
	var c cursors
	first := c.put([]byte("a"))
	last := first
	for range mostCursors {
		last = c.put([]byte("b"))
	}
	if _, ok := c.get(first); ok || len(c.keys) != mostCursors || last >= 1<<53 {
		t.Errorf("%d cursors, the first among them: %v, the last is %d", len(c.keys), ok, last)
	}
	for range 100 {
		last = c.put(make([]byte, cursorBytes/10))
	}
	if _, ok := c.get(last); !ok || c.bytes > cursorBytes || len(c.keys) > 11 {
		t.Errorf("%d cursors of %d bytes, the last among them: %v", len(c.keys), c.bytes, ok)
	}
}

// A cursor of another member is refused, rather than taken for a place of this one's.
func TestScan_OtherMembersCursor(t *testing.T) {
	a, _ := setup(t)
	b, _ := setup(t)
	for _, s := range []*Server{a, b} {
		for i := range 20 {
			s.newClient().say("SET", fmt.Sprint(i), "x")
		}
	}
	// Their runs differ with a probability of 1 - 2^-21.
	words := strings.Fields(a.newClient().say("SCAN", "0"))
	b.newClient().say("SCAN", "0")
	if got := b.newClient().say("SCAN", words[2]); !strings.HasPrefix(got, "-ERR invalid cursor: each member") {
		t.Errorf("a cursor of another member: %q", got)
	}
	if got := a.newClient().say("SCAN", words[2]); !strings.HasPrefix(got, "*2\r\n$1\r\n0\r\n*10\r\n") {
		t.Errorf("its own cursor, on another connection: %q", got)
	}
}

// A call of SCAN returns a bounded number of bytes, whatever its COUNT, and the next ones the rest.
func TestScan_LongKeys(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	for i := range 100 {
		c.say("SET", fmt.Sprintf("%03d%s", i, strings.Repeat("x", 60_000)), "x")
	}
	found, calls := 0, 0
	for cursor := "0"; ; calls++ {
		reply := c.say("SCAN", cursor, "COUNT", "10000")
		if len(reply) > 2*scanBytes {
			t.Fatalf("a reply of %d bytes", len(reply))
		}
		found += strings.Count(reply, "$60003\r\n")
		if cursor = strings.Fields(reply)[2]; cursor == "0" {
			break
		}
	}
	if found != 100 || calls < 5 {
		t.Errorf("%d keys in %d calls", found, calls)
	}
}
