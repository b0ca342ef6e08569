package server

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// A string is in pieces from 4,097 bytes up if a command has made it so long, and zeros take no room.
func TestLong_Layout(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	entries := func() (all []string) {
		for e, err := range f.db.Scan(shale.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if string(e.Key) != "shaled" {
				all = append(all, string(e.Key)+" = "+string(e.Value))
			}
		}
		return all
	}
	c.want(t, "SETRANGE a 4090 xyz", ":4093")
	if got := entries(); len(got) != 1 || got[0] != "ka = s"+strings.Repeat("\x00", 4090)+"xyz" {
		t.Errorf("a short string: %.20q", got)
	}
	c.want(t, "APPEND a abcd", ":4097")
	got := entries()
	if len(got) != 3 {
		t.Fatalf("%d entries", len(got))
	}
	generation := got[0][len("ka = l\x01"):][:8]
	piece := func(index, bytes string) string {
		return "p\x00\x01a" + generation + "\x00\x00\x00" + index + " = " + bytes
	}
	for i, want := range []string{
		"ka = l\x01" + generation + "\x00\x00\x00\x00\x00\x00\x10\x01" + "\x00\x00\x00\x00\x00\x00\x00\x01",
		piece("\x07", strings.Repeat("\x00", 512-6)+"xyzabc"),
		piece("\x08", "d"+strings.Repeat("\x00", 511)),
	} {
		if got[i] != want {
			t.Errorf("entry %d is %q, want %q", i, got[i], want)
		}
	}
	c.want(t, "SETRANGE a 4096 \x00", ":4097")
	if got := entries(); len(got) != 2 || !strings.HasSuffix(got[0], "\x10\x01\x00\x00\x00\x00\x00\x00\x00\x02") {
		t.Errorf("after a zero: %q", got)
	}
	if err := f.db.Put([]byte("ka"), []byte("l\x02"+generation)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"GET a", "STRLEN a", "SETBIT a 1 1", "GETBIT a 1", "MGET a"} {
		c.want(t, line, "-ERR the value is of a kind that this shaled does not know, \"l\": use a newer one")
	}
}

// A bit of a bitmap of 512 MiB costs a small write, and limits are those of Redis.
func TestLong_Largest(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	c.want(t, "SETBIT a 4294967295 1", ":0")
	c.want(t, "STRLEN a", ":536870912")
	before := f.db.Metrics().WALBytes
	c.want(t, "SETBIT a 123456789 1", ":0")
	if n := f.db.Metrics().WALBytes - before; n > 700 {
		t.Errorf("a bit has written %d bytes", n)
	}
	before = f.db.Metrics().WALBytes
	c.want(t, "SETBIT a 123456789 1", ":1")
	c.want(t, "SETBIT a 123456788 0", ":0")
	if n := f.db.Metrics().WALBytes - before; n != 0 {
		t.Errorf("bits that do not change have written %d bytes", n)
	}
	for _, test := range []struct{ line, reply string }{
		{"GETBIT a 123456789", ":1"},
		{"GETBIT a 123456790", ":0"},
		{"GETBIT a 4294967295", ":1"},
		{"BITCOUNT a", ":2"},
		{"BITCOUNT a -1 -1", ":1"},
		{"BITPOS a 1", ":123456789"},
		{"BITPOS a 1 123456790 -1 BIT", ":4294967295"},
		{"BITPOS a 0", ":0"},
		{"GETRANGE a -2 -1", "$2|\x00\x01"},
		{"GETBIT a 4294967296", "-ERR bit offset is not an integer or out of range"},
		{"SETBIT a 4294967296 1", "-ERR bit offset is not an integer or out of range"},
		{"APPEND a x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"},
		{"SETRANGE b 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"},
		{"SETRANGE b 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"},
		{"SETRANGE b 536870912 ", ":0"},
		{"INCR a", "-ERR value is not an integer or out of range"},
		{"GET a", "-ERR these are 536870912 bytes, and a reply has at most 67108864: use GETRANGE for parts"},
		{"MGET a", "-ERR the values together are larger than 67108864 bytes: ask for fewer keys at a time"},
		{"GETSET a x", "-ERR these are 536870912 bytes, and a reply has at most 67108864: use GETRANGE for parts"},
		{"GETDEL a", "-ERR these are 536870912 bytes, and a reply has at most 67108864: use GETRANGE for parts"},
		{"DELIFEQ a x", ":0"},
		{"SET a x IFEQ x", "$-1"},
		{"SCAN 0 TYPE string", "*2|$1|0|*1|$1|a"},
		{"BF.ADD a x", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"SET a x XX", "+OK"},
		{"STRLEN a", ":1"},
	} {
		if got := c.say(strings.Split(test.line, " ")...); got != strings.ReplaceAll(test.reply, "|", "\r\n")+"\r\n" {
			t.Errorf("%s: %q, want %q", test.line, got, test.reply)
		}
	}
}

// Conditions and deletes of long strings look at all their bytes, and leave no piece.
func TestLong_Conditions(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	long, other := strings.Repeat("x", 5000), strings.Repeat("x", 4999)+"y"
	for _, test := range []struct {
		words  []string
		reply  string
		leaves int
	}{
		{[]string{"DELIFEQ", "a", other}, ":0", 10},
		{[]string{"DELIFEQ", "a", long}, ":1", 0},
		{[]string{"SET", "a", "1", "IFEQ", other}, "$-1", 10},
		{[]string{"SET", "a", "1", "IFEQ", ""}, "$-1", 10},
		{[]string{"SET", "a", "1", "IFEQ", long}, "+OK", 0},
		{[]string{"GETDEL", "a"}, "$5000\r\n" + long, 0},
		{[]string{"GETSET", "a", "1"}, "$5000\r\n" + long, 0},
		{[]string{"GETEX", "a", "EX", "1000"}, "$5000\r\n" + long, 10},
		{[]string{"EXPIRE", "a", "-1"}, ":1", 0},
	} {
		c.say("DEL", "a")
		if _, err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.want(t, "SETRANGE a 4999 x", ":5000")
		c.say("SETRANGE", "a", "0", long)
		got, pieces := c.say(test.words...), 0
		for range f.db.Scan(shale.Prefix([]byte{pieceSpace})) {
			pieces++
		}
		if got != test.reply+"\r\n" || pieces != test.leaves {
			t.Errorf("%.30q: %.30q, and %d pieces are left, want %.30q and %d", test.words, got, pieces, test.reply, test.leaves)
		}
	}
}

// WATCH sees each change of a long string.
func TestLong_Watch(t *testing.T) {
	s, _ := setup(t)
	c, other := s.newClient(), s.newClient()
	c.want(t, "SETBIT a 80000 1", ":0")
	for _, line := range []string{"SETBIT a 5 1", "SETRANGE a 17 x", "APPEND a y", "SET a z"} {
		c.want(t, "WATCH a", "+OK")
		other.say(strings.Fields(line)...)
		c.want(t, "MULTI", "+OK")
		c.want(t, "SETBIT a 6 1", "+QUEUED")
		c.want(t, "EXEC", "*-1")
	}
}

// A meddler is a Store in which something is changed after each look at it.
type meddler struct {
	Store
	change func()
}

type meddledReader struct {
	*shale.DB
	change func()
}

func (m meddler) Read(ctx context.Context, fn func(shale.Reader) error) error {
	return m.Store.Read(ctx, func(r shale.Reader) error { return fn(meddledReader{r.(*shale.DB), m.change}) })
}

func (m meddledReader) ViewValue(key []byte, fn func([]byte) error) error {
	defer m.change()
	return m.DB.ViewValue(key, fn)
}

func (m meddledReader) GetMany(keys [][]byte, fn func(int, []byte, bool) error) error {
	defer m.change()
	return m.DB.GetMany(keys, fn)
}

func (m meddledReader) NewIterator(r shale.Range) *shale.Iterator {
	defer m.change()
	return m.DB.NewIterator(r)
}

// What a command reads of a long string is of one moment, though that is changed, replaced or deleted at each step.
func TestLong_OneMoment(t *testing.T) {
	s, f := setup(t)
	w, n, most := newServer(&fake{Store: f.Store, db: f.db}).newClient(), 0, 0
	of := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), 5000) }
	change := func() {
		switch n++; {
		case n > most: // so that a command ends which looks again
		case n%3 == 0:
			w.transact([]string{"DEL", "a", "b"}, []string{"SETRANGE", "a", "0", of(n)}, []string{"SETRANGE", "b", "0", of(n)})
		default: // each byte of these has bit 1
			w.transact([]string{"SETRANGE", "a", "0", of(n)}, []string{"SETRANGE", "b", "0", of(n)})
		}
	}
	f.Store = meddler{f.Store, change}
	c := s.newClient()
	for round := range 24 {
		for _, words := range [][]string{
			{"GET", "a"}, {"GETRANGE", "a", "100", "4900"}, {"MGET", "a", "b"}, {"GETBIT", "a", "39993"}, {"BITCOUNT", "a", "0", "4999"},
			{"BITPOS", "a", "0"}, {"BITPOS", "a", "1"},
		} {
			w.transact([]string{"SETRANGE", "a", "0", of(0)}, []string{"SETRANGE", "b", "0", of(0)})
			n = round % 3
			most = n + round/3
			for i, part := range strings.Split(c.say(words...), "\r\n") {
				bad := false
				switch {
				case words[0] == "GETBIT" && i == 0:
					bad = part != ":1"
				case words[0] == "BITCOUNT" && i == 0: // the same number in each byte
					ones, err := strconv.Atoi(part[1:])
					bad = err != nil || ones%5000 != 0 || ones == 0
				case words[0] == "BITPOS" && i == 0:
					bad = part != ":"+strconv.Itoa(int(words[2][0]-'0'))
				case i == 1 || i == 2 || i == 4:
					bad = len(part) > 100 && strings.Count(part, part[:1]) != len(part)
				}
				if bad {
					t.Errorf("%q after %d changes: %.100q", words, n, part)
				}
			}
		}
	}
}

// transact does commands in a transaction.
func (c *client) transact(commands ...[]string) {
	c.say("MULTI")
	for _, words := range commands {
		c.say(words...)
	}
	c.say("EXEC")
}

// BenchmarkBits sets and reads bits of a bitmap, and appends to a string, of 10 MB each.
func BenchmarkBits(b *testing.B) {
	s, f := setup(b)
	c := s.newClient()
	const size = 10_000_000
	c.say("SET", "a", strings.Repeat("x", size))
	c.say("SETBIT", "a", strconv.Itoa(8*size), "1")
	if err := f.db.Compact(b.Context(), shale.Range{}); err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name  string
		words func(i int) []string
	}{
		{"SETBIT", func(i int) []string {
			return []string{"SETBIT", "a", strconv.Itoa(i * 7919 % size * 8), strconv.Itoa(1 - i/size%2)}
		}},
		{"GETBIT", func(i int) []string { return []string{"GETBIT", "a", strconv.Itoa(i * 7919 % size * 8)} }},
		{"GETRANGE", func(i int) []string {
			return []string{"GETRANGE", "a", strconv.Itoa(i * 7919 % size), strconv.Itoa(i*7919%size + 100)}
		}},
		{"APPEND", func(i int) []string { return []string{"APPEND", "a", "another line of a log"} }},
		{"BITCOUNT", func(i int) []string { return []string{"BITCOUNT", "a"} }},
		{"GET", func(i int) []string { return []string{"GET", "a"} }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.say(bench.words(i)...)
			}
		})
	}
}
