package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/vfs"
)

// A life is what a server alone, with --sync always, does on a disk.
type life struct {
	commands [][]string
	looks    [][]string // commands that look at all that they change
}

// lifeOf returns commands that make, change, load and delete long strings and filters.
func lifeOf(t *testing.T) life {
	same, err := redisbloom.New(500, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := same.Add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	var l life
	do := func(words ...string) { l.commands = append(l.commands, words) }
	do("SETBIT", "a", "40000", "1")
	do("SET", "s", strings.Repeat("x", 4090))
	do("APPEND", "s", strings.Repeat("y", 1200))
	do("BF.RESERVE", "f", "0.01", "4")
	for i := range 12 { // the filter grows twice
		do("BF.ADD", "f", fmt.Sprint("item ", i))
		do("SETBIT", "a", fmt.Sprint(i*8191), "1")
		do("APPEND", "s", strings.Repeat(string(rune('a'+i)), 300))
	}
	for at, chunk := range same.Chunks() {
		if at == 1 {
			do("BF.LOADCHUNK", "copy", "1", string(chunk))
			continue
		}
		begin := int(at) - len(chunk)
		for part := range slices.Chunk(chunk, 150) {
			begin += len(part)
			do("BF.LOADCHUNK", "copy", fmt.Sprint(begin), string(part))
		}
	}
	do("SETRANGE", "s", "400", strings.Repeat("z", 3000))
	do("DEL", "a")
	do("SETBIT", "a", "50000", "1")
	do("SET", "s", "short")
	do("BF.MADD", "copy", "new", "newer", "newest")
	for _, name := range []string{"a", "s"} {
		l.looks = append(l.looks, []string{"GET", name}, []string{"BITCOUNT", name})
	}
	for _, name := range []string{"f", "copy"} {
		l.looks = append(l.looks, []string{"BF.INFO", name}, []string{"BF.SCANDUMP", name, "0"})
		words := []string{"BF.MEXISTS", name, "new", "newer", "newest", "0", "1", "299"}
		for i := range 12 {
			words = append(words, fmt.Sprint("item ", i))
		}
		for at := range 16 {
			l.looks = append(l.looks, []string{"BF.SCANDUMP", name, fmt.Sprint(1 + 50*at)})
		}
		l.looks = append(l.looks, words)
	}
	return l
}

// run does the commands on a disk, and calls done after each that was acknowledged. It returns at the first error.
func (l *life) run(disk vfs.FS, done func(c *client)) error {
	db, err := shale.Open("db", &shale.Options{FS: disk, Durability: shale.SyncManual, MemtableSize: 64 << 10})
	if err != nil {
		return err
	}
	defer db.Close()
	store := Alone(db, db.Sync)
	c := newServer(&fake{Store: store, db: db}).newClient()
	for _, words := range l.commands {
		if reply := c.say(words...); reply[0] == '-' {
			return fmt.Errorf("%.50q: %s", words, reply)
		}
		if err := store.Settle(); err != nil {
			return err
		}
		done(c)
	}
	return nil
}

// look returns all that matters of what a store has, generations left out.
func (l *life) look(c *client) string {
	var all strings.Builder
	for _, words := range l.looks {
		all.WriteString(c.say(words...))
	}
	if f, err := c.findFilter(c.s.config.Store.Local(), []byte("copy")); err == nil {
		fmt.Fprint(&all, f.next) // how far it is loaded
	}
	return all.String()
}

// After a power cut within any operation on the disk each value is as the last acknowledged command has left it, or the one
// that was under way: none is there by half. Then the commands go on, those that load a dump among them.
func TestCrash_NothingByHalf(t *testing.T) {
	l := lifeOf(t)
	empty, _ := setup(t)
	states := []string{l.look(empty.newClient())} // by number of commands
	if err := l.run(vfs.NewMem(), func(c *client) { states = append(states, l.look(c)) }); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	type cut struct {
		disk        *vfs.Mem
		least, most int // commands
	}
	var mu sync.Mutex // the store works in the background too
	var cuts []cut
	var acknowledged atomic.Int64
	disk := vfs.NewMem()
	ops := r.IntN(10)
	disk.OnOp(func(vfs.Op, string) {
		mu.Lock()
		defer mu.Unlock()
		if ops++; testing.Short() && ops%10 != 0 {
			return
		}
		configs := vfs.CrashConfigs(r.Uint64())
		least := int(acknowledged.Load())
		after := disk.Crash(configs[r.IntN(len(configs))])
		cuts = append(cuts, cut{after, least, min(int(acknowledged.Load())+1, len(l.commands))})
	})
	if err := l.run(disk, func(*client) { acknowledged.Add(1) }); err != nil {
		t.Fatal(err)
	}
	disk.OnOp(nil)
	for _, cut := range cuts {
		db, err := shale.Open("db", &shale.Options{FS: cut.disk, Durability: shale.SyncManual})
		if err != nil {
			t.Fatalf("seed %d: after %d commands: %v", seed, cut.least, err)
		}
		c := newServer(&fake{Store: Alone(db, nil), db: db}).newClient()
		at := cut.least + slices.Index(states[cut.least:cut.most+1], l.look(c))
		if at < cut.least {
			t.Fatalf("seed %d: the state is none of those after %d to %d commands, of which the last is %.60q", seed, cut.least, cut.most, l.commands[cut.most-1])
		}
		for _, words := range l.commands[at:] {
			if reply := c.say(words...); reply[0] == '-' {
				t.Fatalf("seed %d: after %d commands and a power cut: %.60q: %s", seed, at, words, reply)
			}
		}
		if l.look(c) != states[len(states)-1] {
			t.Errorf("seed %d: after %d commands and a power cut the others end in another state", seed, at)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(cuts) < 10 {
		t.Errorf("%d power cuts", len(cuts))
	}
	t.Logf("%d power cuts within %d commands", len(cuts), len(l.commands))
}
