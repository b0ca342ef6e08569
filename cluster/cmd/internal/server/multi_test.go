package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Transfers between accounts by WATCH, MULTI and EXEC neither make nor lose money, and are all or nothing.
func TestMulti_Bank(t *testing.T) {
	s, _ := setup(t)
	s.newClient().want(t, "MSET a 100 b 100", "+OK")
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			c := s.newClient()
			for done := 0; done < 50; {
				c.say("WATCH", "a", "b")
				var a, b int
				if _, err := fmt.Sscanf(strings.ReplaceAll(c.say("MGET", "a", "b"), "\r\n", " "), "*2 $%d %d $%d %d", new(int), &a, new(int), &b); err != nil {
					t.Error(err)
					return
				}
				if a+b != 200 {
					t.Errorf("a reader sees %d and %d", a, b)
				}
				c.say("MULTI")
				c.say("SET", "a", fmt.Sprint(a-1))
				c.say("SET", "b", fmt.Sprint(b+1))
				switch reply := c.say("EXEC"); reply {
				case "*2\r\n+OK\r\n+OK\r\n":
					done++
				case "*-1\r\n":
				default:
					t.Errorf("EXEC: %q", reply)
					return
				}
			}
		})
	}
	clients.Wait()
	s.newClient().want(t, "MGET a b", "*2|$4|-100|$3|300")
}

// A transaction of which nobody knows whether it has happened says so, and one that has not is none.
func TestMulti_Errors(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	c.want(t, "MULTI", "+OK")
	c.want(t, "SET a 1", "+QUEUED")
	unknown := func(bool) error { return errUnknown }
	f.fail.Store(&unknown)
	c.want(t, "EXEC", "-UNKNOWN nobody knows")
	f.fail.Store(nil)
	c.want(t, "GET a", "$-1")
	s.config.MaxCommand = 300
	c.want(t, "MULTI", "+OK")
	c.want(t, "SET a "+strings.Repeat("x", 60), "+QUEUED")
	c.want(t, "SET a "+strings.Repeat("x", 60), "-ERR the commands of a transaction have more than 300 bytes")
	c.want(t, "EXEC", "-EXECABORT Transaction discarded because of previous errors.")
}

// Filters are a part of transactions, and can be watched.
func TestMulti_Filters(t *testing.T) {
	s, _ := setup(t)
	c, other := s.newClient(), s.newClient()
	c.want(t, "MULTI", "+OK")
	c.want(t, "BF.ADD f a", "+QUEUED")
	c.want(t, "BF.EXISTS f a", "+QUEUED")
	c.want(t, "GET f", "+QUEUED")
	c.want(t, "EXEC", "*3|:1|:1|-WRONGTYPE Operation against a key holding the wrong kind of value")
	c.want(t, "WATCH f", "+OK")
	other.want(t, "BF.ADD f b", ":1")
	c.want(t, "MULTI", "+OK")
	c.want(t, "BF.ADD f c", "+QUEUED")
	c.want(t, "EXEC", "*-1")
	c.want(t, "BF.CARD f", ":2")
}
