package server

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// Commands in a pipeline, and between MULTI and EXEC, leave the same filters and get the same replies as one after the other.
func TestFilter_KeptBetweenCommands(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	lines := []string{
		"BF.ADD f #", "BF.ADD f #", "BF.ADD f #", "BF.MADD f # # #", "BF.ADD g #", "BF.INSERT g CAPACITY 3 ITEMS # #", "BF.EXISTS f #", "BF.CARD f",
		"BF.RESERVE f 0.01 3 NONSCALING", "BF.RESERVE f 0.1 2", "BF.RESERVE f 0.1 2 COMPATIBLE", "DEL f", "SET f #", "SET f # XX", "EXPIREAT f 4102444800", "EXPIRETIME f", "GETDEL f", "TYPE f", "INCR n",
		"BF.SCANDUMP f 0", "FLUSHALL", "BF.LOADCHUNK f 1 " + string(headerOf(t)), "EXPIRE f -1", "GETEX f EX 100",
	}
	for round := range 300 {
		one, _ := setup(t)
		pipelined, _ := setup(t)
		multi, _ := setup(t)
		a, b, c := one.newClient(), pipelined.newClient(), multi.newClient()
		var want, transaction strings.Builder
		var all [][][]byte
		c.say("MULTI")
		n := 2 + r.IntN(20)
		for range n {
			line := lines[r.IntN(len(lines))]
			for strings.Contains(line, "#") {
				line = strings.Replace(line, "#", fmt.Sprint(r.IntN(12)), 1)
			}
			args := bytesOf(strings.Split(line, " ")...)
			all = append(all, args)
			a.Out = a.Out[:0]
			a.run(pipelineOf(args))
			want.Write(a.Out)
			fmt.Fprintf(&transaction, "%.30q\n", line)
			c.run(pipelineOf(args))
		}
		for p := pipelineOf(all...); len(p) > 0; {
			p = p[b.run(p):]
		}
		if got := string(b.Out); got != want.String() {
			t.Fatalf("seed %d, round %d: as a pipeline %q, one after the other %q:\n%s", seed, round, got, want.String(), transaction.String())
		}
		if got := c.say("EXEC"); got != fmt.Sprintf("*%d\r\n", n)+want.String() {
			t.Fatalf("seed %d, round %d: in a transaction %q, one after the other %q:\n%s", seed, round, got, want.String(), transaction.String())
		}
	}
}

func headerOf(t *testing.T) []byte {
	t.Helper()
	f, err := redisbloom.NewFilter(redisbloom.Options{Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	_, header := f.ScanDump(0)
	return header
}

// Items that are there already cost no write.
func TestFilter_OldItemsWriteNothing(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	c.want(t, "BF.MADD f a b", "*2|:1|:1")
	before := f.db.Metrics().WALBytes
	c.want(t, "BF.MADD f b a a", "*3|:0|:0|:0")
	c.want(t, "BF.ADD f a", ":0")
	if n := f.db.Metrics().WALBytes - before; n != 0 {
		t.Errorf("they have written %d bytes", n)
	}
}

// A command that needs more pieces than it may have in memory does what a smaller one does.
func TestFilter_MoreThanIsHeld(t *testing.T) {
	for word, items := range map[string]int{" COMPATIBLE": 15_000, "": 70_000} {
		s, f := setup(t, func(c *Config) { c.Timeout = time.Minute })
		c := s.newClient()
		c.want(t, "BF.RESERVE f 0.01 100000000"+word, "+OK")
		args := []string{"BF.MADD", "f"}
		for i := range items {
			args = append(args, fmt.Sprint(i))
		}
		c.say(args...)
		pieces := 0
		for range f.db.Scan(shale.Prefix([]byte{pieceSpace})) {
			pieces++
		}
		if args[0] = "BF.MEXISTS"; strings.Contains(c.say(args...), ":0") || pieces <= mostHeld/filterPiece {
			t.Errorf("%q: an item is missing, or there are too few pieces, %d, for this test", word, pieces)
		}
	}
}

// A link that this server does not keep is not added, and the filter stays as it was.
func TestFilter_LastLink(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	const full = 1 << 30
	c.want(t, "BF.RESERVE f 0.01 1073741824 EXPANSION 256", "+OK")
	value, err := f.db.Get([]byte("kf"))
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(value[filterHead:], full)       // items of the filter
	binary.LittleEndian.PutUint64(value[filterHead+20+16:], full) // and of its link
	if err := f.db.Put([]byte("kf"), value); err != nil {
		t.Fatal(err)
	}
	info := c.say("BF.INFO", "f")
	c.want(t, "BF.ADD f a", "-ERR could not create filter")
	c.want(t, "BF.INSERT f ITEMS a", "*1|-ERR could not create filter")
	if got := c.say("BF.INFO", "f"); got != info || !strings.Contains(got, "inserted\r\n:1073741824\r\n") {
		t.Errorf("BF.INFO is %q, and was %q", got, info)
	}
}
