package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// longItem returns an item so long that some dozens of them make a filter be saved.
func longItem(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", leastLog/20)) }

// history is a list of commands that need all that filters do in the store: logs, saves, loads
// from chunks, and ends by DEL and SET. Each of them happens whole or not at all.
func history(t testing.TB) (commands [][]string) {
	add := func(args ...string) { commands = append(commands, args) }
	add("SET", "s", "1")
	add("BF.RESERVE", "f", "0.01", "20")
	for i := range 50 { // two saves, and filters that grow
		add("BF.ADD", "f", longItem(i))
	}
	add("BF.MADD", "f", "a", "b", "c", "a")
	add("BF.RESERVE", "g", "0.001", "100000") // some pieces, most of them zeros
	add("BF.MADD", "g", longItem(1), longItem(2))
	loaded, err := redisbloom.New(100_000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := loaded.Add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for at, chunk := range loaded.Chunks() {
		for ; at > 1 && len(chunk) > 50_000; chunk = chunk[50_000:] {
			add("BF.LOADCHUNK", "l", fmt.Sprint(at-int64(len(chunk))+50_000), string(chunk[:50_000]))
		}
		add("BF.LOADCHUNK", "l", fmt.Sprint(at), string(chunk))
	}
	add("BF.ADD", "l", "new")
	add("SET", "f", "no filter any more")
	add("DEL", "g", "s", "l")
	add("BF.RESERVE", "f2", "0.01", "10", "NONSCALING")
	add("BF.MADD", "f2", "1", "2", "3")
	return commands
}

// state returns all that a client can see of the server.
func (c *client) state() string {
	var b strings.Builder
	fmt.Fprint(&b, c.say("SCAN", "0", "COUNT", "1000"))
	for _, name := range []string{"f", "f2", "g", "l", "s"} {
		fmt.Fprintf(&b, "%s: %s %s", name, c.say("TYPE", name), c.say("GET", name))
		for at := "0"; ; {
			reply := c.say("BF.SCANDUMP", name, at)
			b.WriteString(reply)
			words := strings.SplitN(reply, "\r\n", 3)
			if words[0] != "*2" || words[1] == ":0" {
				break
			}
			at = words[1][1:]
		}
	}
	return b.String()
}

// A crashed is what a crash has left, and how many commands had been answered.
type crashed struct {
	answered int
	how      vfs.CrashConfig
	disk     *vfs.Mem
}

// crashes runs the history on a server and crashes it in configs' ways before every operation
// on files, of which it keeps about most.
func crashes(t *testing.T, c config, configs []vfs.CrashConfig, most int) (states []string, all []crashed) {
	t.Helper()
	commands := history(t)
	mem := c.fs.(*vfs.Mem)
	var answered atomic.Int64
	var mu sync.Mutex
	every, n := 1, 0
	answered.Store(-1)
	mem.OnOp(func(op vfs.Op, name string) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%every != 0 || answered.Load() < 0 {
			return
		}
		how := configs[n/every%len(configs)]
		all = append(all, crashed{int(answered.Load()), how, mem.Crash(how)})
		if len(all) == most { // keep every other one, and go on half as often
			for i := range most / 2 {
				all[i] = all[2*i]
			}
			all, every = all[:most/2], 2*every+1
		}
	})
	client := direct(t, c)
	states = append(states, client.state())
	answered.Store(0)
	for _, args := range commands {
		if reply := client.say(args...); strings.HasPrefix(reply, "-") {
			t.Fatalf("%.40q = %s", args, reply)
		}
		if err := client.settle(); err != nil {
			t.Fatal(err)
		}
		answered.Add(1)
		if strings.HasPrefix(args[0], "BF.LOAD") || len(states)%5 == 0 { // flushed and compacted now and then
			if err := client.s.db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		states = append(states, client.state())
	}
	mem.OnOp(nil)
	mu.Lock()
	defer mu.Unlock()
	return states, all
}

// check opens what a crash has left. The server must be in the state after the commands that
// were answered, or after one more. From there it goes on with the rest.
func (k crashed) check(t *testing.T, c config, states []string) {
	t.Helper()
	c.fs = k.disk
	s, err := openServer(c, func(string, ...any) {})
	if err != nil {
		t.Errorf("crash %v after %d commands: %v", k.how, k.answered, err)
		return
	}
	defer s.close()
	s.background.Wait()
	if left := garbage(t, s); left != "" {
		t.Errorf("crash %v after %d commands: %s", k.how, k.answered, left)
	}
	client, next := s.newClient(), k.answered
	if got := client.state(); got != states[next] {
		if next++; next == len(states) || got != states[next] {
			t.Errorf("crash %v after %d commands: another state than after these or one more", k.how, k.answered)
			return
		}
	}
	for i, args := range history(t)[next:] {
		// What looks the same before and after it may have happened. Then it can't happen again.
		if reply := client.say(args...); reply[0] == '-' && (i > 0 || states[next] != states[next+1]) {
			t.Errorf("crash %v after %d commands: %.40q then = %s", k.how, k.answered, args, reply)
		}
	}
	if client.state() != states[len(states)-1] {
		t.Errorf("crash %v after %d commands: another state at the end", k.how, k.answered)
	}
}

// garbage names keys of the store that belong to no filter, or to no generation of one.
func garbage(t *testing.T, s *server) string {
	t.Helper()
	var left strings.Builder
	filters := make(map[uint64]*filter)
	for _, f := range s.filters.by {
		filters[f.id] = f
	}
	for _, space := range []byte{pieceSpace, logSpace, loadSpace} {
		for e, err := range s.db.Scan(shale.Prefix([]byte{space})) {
			if err != nil {
				t.Fatal(err)
			}
			id, second := binary.BigEndian.Uint64(e.Key[1:]), binary.BigEndian.Uint64(e.Key[9:])
			f := filters[id]
			if f == nil || space == pieceSpace && second != f.gen || space == loadSpace && f.loading == nil {
				fmt.Fprintf(&left, "%q is left over; ", e.Key)
			}
		}
	}
	return left.String()
}

// most is how many crashes a test tries.
func most(t *testing.T) int {
	if testing.Short() || testenv.Race {
		return 100
	}
	return 600
}

// After a kill of the process at any moment, every answered command is there.
func TestFilters_Killed(t *testing.T) {
	c := settings(t, "-sync", "no")
	states, all := crashes(t, c, []vfs.CrashConfig{{Policy: vfs.KeepAll, Names: vfs.NamesKeep}}, most(t))
	for _, k := range all {
		k.check(t, c, states)
	}
	t.Logf("%d moments of %d commands", len(all), len(states)-1)
}

// With -sync always, every answered command is there after a power cut at any moment.
func TestFilters_PowerCut(t *testing.T) {
	c := settings(t, "-sync", "always")
	states, all := crashes(t, c, vfs.CrashConfigs(testenv.Seed(t)), most(t))
	for _, k := range all {
		k.check(t, c, states)
	}
	t.Logf("%d moments of %d commands", len(all), len(states)-1)
}

// When the disk is full, commands fail, and the filter is what the store has: all that was
// acknowledged. When there is room again, it takes items again.
func TestFilters_FullDisk(t *testing.T) {
	mem := vfs.NewMem()
	var full atomic.Bool
	c := settings(t)
	c.fs = faultfs.New(mem, func(op vfs.Op, _ string, _ int64) error {
		if full.Load() && (op == vfs.OpWrite || op == vfs.OpMapWrite || op == vfs.OpCreate || op == vfs.OpPreallocate) {
			return syscall.ENOSPC
		}
		return nil
	})
	client := direct(t, c)
	defer full.Store(false) // so that the store can be closed
	acknowledged := 0
	for i := range 40 {
		full.Store(i == 25)
		reply := client.say("BF.ADD", "f", longItem(i))
		switch {
		case i == 25:
			if !strings.HasPrefix(reply, "-") {
				t.Fatalf("BF.ADD with a full disk = %q", reply)
			}
			for j := range i + 1 {
				if got := client.say("BF.EXISTS", "f", longItem(j)); got != map[bool]string{true: ":1\r\n", false: ":0\r\n"}[j < i] {
					t.Errorf("after item %d failed, BF.EXISTS of item %d = %q", i, j, got)
				}
			}
			full.Store(false)
			if err := client.s.db.Resume(); err != nil {
				t.Fatal(err)
			}
		case reply == ":1\r\n":
			acknowledged++
		}
	}
	if acknowledged != 39 {
		t.Errorf("%d items were new, want 39", acknowledged)
	}
	before := client.state()
	again := direct(t, config{fs: mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep}), dir: c.dir, sync: c.sync, maxFilter: c.maxFilter})
	if again.state() != before {
		t.Error("the filter is another one after a restart")
	}
}

// A start finds the log as it was, and nothing of older generations in it.
func TestFilters_LogAfterStart(t *testing.T) {
	cfg := settings(t)
	for i, gen := 0, uint64(1); gen < 4; i++ {
		c := direct(t, cfg)
		for n := range 7 {
			c.say("BF.ADD", "f", longItem(7*i+n))
		}
		f := c.s.filters.get([]byte("f"))
		if err := c.s.db.Close(); err != nil {
			t.Fatal(err)
		}
		again := direct(t, cfg)
		g := again.s.filters.get([]byte("f"))
		if g.gen != f.gen || g.slots != f.slots || g.logged != f.logged || g.saveAt != f.saveAt || g.shape.room != f.shape.room || g.shape.bytes != f.shape.bytes {
			t.Fatalf("generation %d with %d records, %d of %d bytes, %+v; it was %d with %d, %d of %d, %+v",
				g.gen, g.slots, g.logged, g.saveAt, g.shape, f.gen, f.slots, f.logged, f.saveAt, f.shape)
		}
		gen = g.gen
		if err := again.s.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A damaged filter is reported, and does not keep the server from starting.
func TestFilters_Damaged(t *testing.T) {
	for _, damage := range []struct {
		what string
		do   func(c *client, f *filter) error
	}{
		{"a checksum", func(c *client, f *filter) error {
			return c.s.db.Put(idKey(filterMeta, f.id), record{gen: f.gen, sum: 1, name: "f"}.encode())
		}},
		{"no header", func(c *client, f *filter) error { return c.s.db.Delete(idKey(pieceSpace, f.id, f.gen, 0)) }},
		{"a header of another length", func(c *client, f *filter) error {
			return c.s.db.Put(idKey(pieceSpace, f.id, f.gen, 0), []byte("short"))
		}},
		{"a long piece", func(c *client, f *filter) error {
			return c.s.db.Put(idKey(pieceSpace, f.id, f.gen, 1<<40), make([]byte, pieceLen+1))
		}},
		{"a log record", func(c *client, f *filter) error {
			return c.s.db.Put(idKey(logSpace, f.id, 0), append(idKey(0, f.gen)[1:], 5))
		}},
	} {
		cfg := settings(t)
		s, err := openServer(cfg, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		c := s.newClient()
		c.want(t, "BF.ADD f a", ":1")
		c.want(t, "BF.ADD other a", ":1")
		if err := errors.Join(damage.do(c, s.filters.get([]byte("f"))), s.close()); err != nil {
			t.Fatal(err)
		}
		if s, err = openServer(cfg, t.Logf); err != nil {
			t.Errorf("%s: %v", damage.what, err)
			continue
		}
		c = s.newClient()
		for _, line := range []string{"BF.ADD f b", "BF.EXISTS f a", "BF.INFO f", "BF.CARD f"} {
			if got := c.say(strings.Fields(line)...); !strings.HasPrefix(got, "-ERR the filter can't be read") {
				t.Errorf("%s: %s = %q", damage.what, line, got)
			}
		}
		c.want(t, "BF.EXISTS other a", ":1")
		c.want(t, "DEL f", ":1")
		c.want(t, "BF.ADD f a", ":1")
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// A record that a later version has written keeps the server from starting, because it
// does not know what it would overwrite.
func TestFilters_LaterVersion(t *testing.T) {
	cfg := settings(t)
	s, err := openServer(cfg, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	later := append([]byte{2}, record{gen: 1, name: "f"}.encode()[1:]...)
	if err := errors.Join(s.db.Put(idKey(filterMeta, 1), later), s.close()); err != nil {
		t.Fatal(err)
	}
	if s, err = openServer(cfg, t.Logf); err == nil || !strings.Contains(err.Error(), "does not know") {
		t.Errorf("the server starts: %v, %v", s, err)
	}
}
