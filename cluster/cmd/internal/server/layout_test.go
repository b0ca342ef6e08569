package server

import (
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// A store that something else has written is refused, and stays as it is; an empty one is taken.
func TestPrepare_OtherStores(t *testing.T) {
	for name, keys := range map[string][2]string{
		"of other keys": {"greeting", "hello"}, "a name without the mark": {"kgreeting", "shello"}, "a later layout": {"shaled", "shaled layout 2\n"},
	} {
		f := newFake(t)
		if err := f.db.Put([]byte(keys[0]), []byte(keys[1])); err != nil {
			t.Fatal(err)
		}
		for _, local := range []bool{false, true} {
			s := newServer(f, func(c *Config) { c.Local = local })
			c := s.newClient()
			for _, line := range []string{"GET greeting", "SET a 1", "DEL greeting", "SET a 1 NX", "SCAN 0"} {
				if got := c.say(strings.Fields(line)...); !strings.HasPrefix(got, "-ERR this store was not written by this shaled") {
					t.Errorf("%s: %s: %q", name, line, got)
				}
			}
		}
		n := 0
		for range f.db.Scan(shale.Range{}) {
			n++
		}
		if n != 1 {
			t.Errorf("%s: %d entries afterwards", name, n)
		}
	}
	f := newFake(t)
	for _, local := range []bool{true, false} {
		c := newServer(f, func(c *Config) { c.Local = local }).newClient()
		c.want(t, "GET a", "$-1")
	}
	if n := f.writes.Load(); n != 0 {
		t.Errorf("reads have made %d writes", n)
	}
	newServer(f).newClient().want(t, "SET a 1", "+OK")
	newServer(f).newClient().want(t, "GET a", "$1|1") // by another program
}

// A value of a kind that a later program has written is no string.
func TestLayout_LaterKind(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	if err := f.db.Put([]byte("ka"), []byte("zabc")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"GET a", "MGET a", "STRLEN a", "TYPE a", "SET a b GET"} {
		c.want(t, line, "-ERR the value is of a kind that this shaled does not know, \"z\": use a newer one")
	}
	c.want(t, "SET a b", "+OK")
	c.want(t, "GET a", "$1|b")
}
