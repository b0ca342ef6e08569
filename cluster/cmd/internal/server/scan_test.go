package server

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
)

// A SCAN gives each key that is there all the time once, while others come and go.
func TestScan_Changes(t *testing.T) {
	s, _ := setup(t)
	resptest.ScanWhileChanging(t, s.newClient().say)
}

// What the options of SCAN do, and what those are answered with that it does not have.
func TestScan_Options(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	c.want(t, "MSET a 1 ab 2 b 3 c 4", "+OK")
	c.want(t, "BF.ADD f x", ":1")
	for _, test := range []struct{ line, reply string }{
		{"0", "*2|$1|0|*5|$1|a|$2|ab|$1|b|$1|c|$1|f"},
		{"0 COUNT 5", "*2|$1|0|*5|$1|a|$2|ab|$1|b|$1|c|$1|f"},
		{"0 count 3", "*2|$12|436247040100|*3|$1|a|$2|ab|$1|b"},
		{"436247040100", "*2|$1|0|*2|$1|c|$1|f"},
		{"0 COUNT 3 MATCH *b", "*2|$12|436247040100|*2|$2|ab|$1|b"},
		{"0 MATCH a? COUNT 1", "*2|$12|429202584005|*0"},
		{"0 TYPE STRING MATCH b", "*2|$1|0|*1|$1|b"},
		{"0 TYPE mbbloom--", "*2|$1|0|*1|$1|f"},
		{"0 TYPE list", "*2|$1|0|*0"},
		{"x", "-ERR invalid cursor"},
		{"-1", "-ERR invalid cursor"},
		{"18446744073709551616", "-ERR invalid cursor"},
		{"17", "-ERR invalid cursor"},
		{"436247040101", "-ERR invalid cursor"},
		{"18446744073709551615", "-ERR invalid cursor: it is too old; begin again with 0"},
		{fmt.Sprint(uint64(77*tailSpan + 436247040100)), "-ERR invalid cursor: it is too old; begin again with 0"},
		{"0 COUNT", "-ERR syntax error"},
		{"0 COUNT 0", "-ERR syntax error"},
		{"0 COUNT x", "-ERR value is not an integer or out of range"},
		{"0 WHAT x", "-ERR syntax error"},
	} {
		c.want(t, "SCAN "+test.line, test.reply)
	}
	c.want(t, "SET \\\\ 1", "+OK")
	if got := c.say("SCAN", "0", "MATCH", ""); got != "*2\r\n$1\r\n0\r\n*0\r\n" {
		t.Errorf("SCAN with the empty pattern: %q", got)
	}
	c.want(t, "MULTI", "+OK")
	c.want(t, "SCAN 0", "-ERR Command not allowed inside a transaction")
	c.want(t, "EXEC", "-EXECABORT Transaction discarded because of previous errors.")
}

// A place has its bytes again when its cursor is read, also by another server, and its number is exact in floating point.
func TestScan_Cursors(t *testing.T) {
	s, f := setup(t)
	other := newServer(f)
	for _, place := range []string{
		"\x00", "\xff", "a", "a\x00", "abcde", "\xff\xff\xff\xff\xff", "abcdef", "\x00\x00\x00\x00\x00\x00", "abcdefgh", "abcdefghi",
		strings.Repeat("\xff", 100), strings.Repeat("long ", 13_000),
	} {
		cursor, err := s.newClient().cursor(f.db, []byte(place))
		if err != nil {
			t.Fatal(err)
		}
		got, err := other.newClient().place(f.db, strconv.AppendUint(nil, cursor, 10))
		if string(got) != place || err != nil || cursor == 0 || uint64(float64(cursor)) != cursor || cursor > 1<<53 {
			t.Errorf("the place %.20q has the cursor %d, and that the place %.20q, %v", place, cursor, got, err)
		}
	}
	for _, test := range []struct{ name, next, place string }{{"a", "b", "b"}, {"a", "ab", "ab"}, {"", "ab", "a"}, {"abc", "abd", "abd"}, {"ab", "b", "b"}} {
		if got := between([]byte(test.name), []byte(test.next)); string(got) != test.place {
			t.Errorf("between %q and %q is %q, want %q", test.name, test.next, got, test.place)
		}
	}
}

// Names that begin alike for long share a record, which is kept as long as it is used. If there are too many records, SCAN
// says so, and a short place needs none.
func TestScan_Records(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	for i := range 3000 {
		c.say("SET", fmt.Sprintf("a name that begins like all others:%06d", i), "x")
	}
	for range 2 {
		for cursor, n := "0", 0; ; n++ {
			words := strings.Fields(c.say("SCAN", cursor))
			if cursor = words[2]; cursor == "0" {
				break
			}
		}
	}
	records := 0
	for e, err := range f.db.Scan(shale.Prefix([]byte{cursorSpace})) {
		if err != nil {
			t.Fatal(err)
		}
		records++
		if err := f.db.PutTTL(e.Key, e.Value, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if records == 0 || records > 10 {
		t.Errorf("%d records for 3,000 names", records)
	}
	c.say("SCAN", "0", "COUNT", "1000")
	kept := 0
	for e, err := range f.db.Scan(shale.Prefix([]byte{cursorSpace})) {
		if err != nil {
			t.Fatal(err)
		}
		if until, err := f.db.ExpiresAt(e.Key); err != nil {
			t.Fatal(err)
		} else if time.Until(until) > 2*time.Hour {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d records have got more time, want 1", kept)
	}

	hash := fnv.New64a()
	_, _ = hash.Write([]byte("full"))
	for try := range numberTries {
		_, _ = hash.Write([]byte{byte(try)})
		for _, of := range []uint64{smallNumbers, allNumbers} {
			if err := f.db.Put(numberKey(1+hash.Sum64()%of), []byte("another")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.cursor(f.db, []byte("fullback")); !errors.Is(err, errCursors) {
		t.Errorf("with no number left: %v", err)
	}
}

// Whatever comes and goes meanwhile, names that are there all the time are found, also by another server and after a restart:
// random names of which many begin alike for long, deletions that take the name at which the call before has stopped, and
// names that are put next to it.
func TestScan_Random(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	_, f := setup(t)
	beginnings := []string{"", "a", "user:profile:", "user:profile:eu:", strings.Repeat("\x00", 9), strings.Repeat("\xff", 30), strings.Repeat("x", 5000)}
	name := func() string {
		end := make([]byte, rng.IntN(4))
		for i := range end {
			end[i] = []byte{0, 1, 'a', 'b', 254, 255}[rng.IntN(6)]
		}
		return beginnings[rng.IntN(len(beginnings))] + string(end)
	}
	for range 20 {
		c := newServer(f).newClient()
		c.say("FLUSHDB")
		stays := make(map[string]int)
		for range 200 {
			stays[name()] = 0
		}
		for one := range stays {
			c.say("SET", one, "x")
		}
		cursor, last := "0", ""
		for calls := 0; ; calls++ {
			reply, err := redisReply(newServer(f).newClient().say("SCAN", cursor, "COUNT", strconv.Itoa(1+rng.IntN(9))))
			if err != nil || calls > 2000 {
				t.Fatalf("call %d: %v", calls, err)
			}
			cursor = reply[0]
			for _, one := range reply[1:] {
				if _, is := stays[one]; is {
					stays[one]++
				}
				last = one
			}
			if cursor == "0" {
				break
			}
			for range 3 {
				comes := []string{name(), last + "\x00", last + "a"}[rng.IntN(3)]
				if _, is := stays[comes]; !is {
					c.say("SET", comes, "y")
				}
			}
			goes := []string{name(), last}[rng.IntN(2)]
			c.say("DEL", goes)
			delete(stays, goes)
		}
		for one, n := range stays {
			if n != 1 {
				t.Fatalf("%.40q was found %d times", one, n)
			}
		}
	}
}

// redisReply returns the cursor and the names of a reply to SCAN.
func redisReply(text string) (words []string, err error) {
	for rest := strings.TrimPrefix(text, "*2\r\n"); rest != ""; {
		var n int
		if _, err := fmt.Sscanf(rest[1:], "%d\r\n", &n); err != nil {
			return nil, fmt.Errorf("%.60q: %w", text, err)
		}
		kind, at := rest[0], strings.Index(rest, "\r\n")+2
		if rest = rest[at:]; kind == '$' {
			words, rest = append(words, rest[:n]), rest[n+2:]
		}
	}
	return words, nil
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
