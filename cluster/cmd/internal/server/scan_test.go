package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
)

// A SCAN gives each key that is there all the time once, while others come and go.
func TestScan_Changes(t *testing.T) {
	s, _ := setup(t)
	resptest.ScanWhileChanging(t, s.newClient().say)
}

// All cursors that a member gives in its life fit into a floating-point number.
func TestScan_CursorsAreSmall(t *testing.T) {
	for range 1000 {
		if first := newScans().First; first < 1<<32 || first >= 1<<53-1<<32 {
			t.Fatalf("the first cursor is %d", first)
		}
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
