package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// What RedisBloom answers to these, this server does.
func TestBloom_Replies(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	for _, test := range []struct{ line, reply string }{
		{"BF.EXISTS f a", ":0"},
		{"BF.MEXISTS f a b", "*2|:0|:0"},
		{"BF.CARD f", ":0"},
		{"BF.INFO f", "-ERR not found"},
		{"BF.SCANDUMP f 0", "-ERR not found"},
		{"BF.LOADCHUNK f 100 x", "-ERR not found"},
		{"BF.LOADCHUNK f 1 x", "-ERR received bad data"},
		{"BF.LOADCHUNK f x x", "-ERR Second argument must be numeric"},
		{"BF.INSERT f NOCREATE ITEMS a", "-ERR not found"},

		{"BF.RESERVE f 0.01", "-ERR wrong number of arguments for 'bf.reserve' command"},
		{"BF.RESERVE f 0.01 1 EXPANSION 1 NONSCALING x", "-ERR wrong number of arguments for 'bf.reserve' command"},
		{"BF.RESERVE f x 100", "-ERR bad error rate"},
		{"BF.RESERVE f 0 100", "-ERR error rate must be in the range (0.000000, 1.000000)"},
		{"BF.RESERVE f 1 100", "-ERR error rate must be in the range (0.000000, 1.000000)"},
		{"BF.RESERVE f nan 100", "-ERR bad error rate"},
		{"BF.RESERVE f 0.01 x", "-ERR bad capacity"},
		{"BF.RESERVE f 0.01 0", "-ERR capacity must be in the range [1, 1073741824]"},
		{"BF.RESERVE f 0.01 1073741825", "-ERR capacity must be in the range [1, 1073741824]"},
		{"BF.RESERVE f 0.01 1 EXPANSION", "-ERR no expansion"},
		{"BF.RESERVE f 0.01 1 EXPANSION x", "-ERR bad expansion"},
		{"BF.RESERVE f 0.01 1 EXPANSION -1", "-ERR expansion must be in the range [0, 32768]"},
		{"BF.RESERVE f 0.01 1 EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"},
		{"BF.EXISTS f a", ":0"},
		{"BF.RESERVE f 0.01 100", "+OK"},
		{"BF.RESERVE f 0.01 100", "-ERR item exists"},
		{"TYPE f", "+MBbloom--"},
		{"BF.ADD f a", ":1"},
		{"BF.ADD f a", ":0"},
		{"bf.madd f a b c", "*3|:0|:1|:1"},
		{"BF.MEXISTS f a b x", "*3|:1|:1|:0"},
		{"BF.CARD f", ":3"},
		{"BF.INFO f", "*10|+Capacity|:100|+Size|:288|+Number of filters|:1|+Number of items inserted|:3|+Expansion rate|:2"},
		{"BF.INFO f CAPACITY", "*1|:100"},
		{"BF.INFO f size", "*1|:288"},
		{"BF.INFO f FILTERS", "*1|:1"},
		{"BF.INFO f ITEMS", "*1|:3"},
		{"BF.INFO f EXPANSION", "*1|:2"},
		{"BF.INFO f OTHER", "-Invalid information value"},
		{"BF.INFO f ITEMS SIZE", "-ERR wrong number of arguments for 'bf.info' command"},
		{"BF.DEBUG f", "*2|$6|size:3|$73|bytes:192 bits:1536 hashes:7 hashwidth:64 capacity:100 size:3 ratio:0.006"},
		{"BF.DEBUG none", "-ERR not found"},
		{"BF.SCANDUMP f x", "-Second argument must be numeric"},
		{"BF.LOADCHUNK f 1 x", "-ERR received bad data"},

		{"BF.RESERVE n 0.01 2 NONSCALING", "+OK"},
		{"BF.INFO n EXPANSION", "*1|$-1"},
		{"BF.MADD n a b c d", "*3|:1|:1|-ERR non scaling filter is full"},
		{"BF.ADD n a", ":0"},
		{"BF.ADD n c", "-ERR non scaling filter is full"},
		{"BF.RESERVE m 0.01 2 EXPANSION 0", "+OK"},
		{"BF.INFO m EXPANSION", "*1|$-1"},

		{"BF.RESERVE c 0.01 100 EXPANSION 2 COMPATIBLE", "+OK"},
		{"BF.INFO c size", "*1|:240"},
		{"BF.INSERT d COMPATIBLE ITEMS a", "*1|:1"},
		{"BF.INFO d size", "*1|:240"},
		{"BF.RESERVE e 0.0000099 100", "+OK"},
		{"BF.INFO e size", "*1|:416"},
		{"DEL c d e", ":3"},

		{"BF.INSERT i", "-ERR wrong number of arguments for 'bf.insert' command"},
		{"BF.INSERT i NOCREATE ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"},
		{"BF.INSERT i CAPACITY 10 ERROR", "-ERR wrong number of arguments for 'bf.insert' command"},
		{"BF.INSERT i OTHER ITEMS a", "-Unknown argument received"},
		{"BF.INSERT i ERROR big ITEMS a", "-Bad error rate"},
		{"BF.INSERT i CAPACITY 0.3 ITEMS a", "-Bad capacity"},
		{"BF.INSERT i EXPANSION -1 ITEMS a", "-Bad expansion"},
		{"BF.INSERT i CAPACITY 1000 ERROR 0.001 EXPANSION 4 ITEMS a b a", "*3|:1|:1|:0"},
		{"BF.INFO i CAPACITY", "*1|:1000"},
		{"BF.INFO i EXPANSION", "*1|:4"},
		{"BF.INSERT i NOCREATE CAPACITY 5 ITEMS ITEMS", "*1|:1"},
		{"BF.INSERT j NONSCALING CAPACITY 1 ITEMS a b", "*2|:1|-ERR non scaling filter is full"},

		{"SET s x", "+OK"},
		{"BF.ADD s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"BF.RESERVE s 0.01 100", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"BF.INFO s", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"BF.CARD s", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"BF.EXISTS s a", ":0"},
		{"GET f", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"MGET f s", "*2|$-1|$1|x"},
		{"EXISTS f s", ":2"},
		{"SET f x", "+OK"},
		{"BF.EXISTS f a", ":0"},
		{"SCAN 0 TYPE MBbloom--", "*2|$1|0|*4|$1|i|$1|j|$1|m|$1|n"},
		{"SCAN 0 TYPE string", "*2|$1|0|*2|$1|f|$1|s"},
		{"DEL f i j m n s", ":6"},
		{"BF.ADD f a", ":1"},
		{"BF.CARD f", ":1"},
	} {
		c.want(t, test.line, test.reply)
	}
}

// The BF methods of go-redis work, and a dump of a compatible filter is that of package redisbloom,
// which is RedisBloom's, byte for byte.
func TestBloom_GoRedis(t *testing.T) {
	ctx := t.Context()
	client := serve(t)
	if err := client.Do(ctx, "BF.RESERVE", "f", 0.001, 50, "EXPANSION", 3, "COMPATIBLE").Err(); err != nil {
		t.Fatal(err)
	}
	same, err := redisbloom.NewFilter(redisbloom.Options{Capacity: 50, ErrorRate: 0.001, Expansion: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		item := fmt.Sprintf("item %d", i*i)
		maybe, err := same.CheckAndAdd([]byte(item))
		want := !maybe
		if err != nil {
			t.Fatal(err)
		}
		var got []bool
		switch i % 3 {
		case 0:
			var one bool
			one, err = client.BFAdd(ctx, "f", item).Result()
			got = []bool{one}
		case 1:
			got, err = client.BFMAdd(ctx, "f", item).Result()
		case 2:
			got, err = client.BFInsert(ctx, "f", &redis.BFInsertOptions{NoCreate: true}, item).Result()
		}
		if err != nil || len(got) != 1 || got[0] != want {
			t.Fatalf("item %d: %v, %v, want %v", i, got, err, want)
		}
	}
	info, err := client.BFInfo(ctx, "f").Result()
	want := same.Info()
	if err != nil || info.Capacity != int64(want.Capacity) || info.Size != int64(want.Size) || info.Filters != int64(want.Filters) ||
		info.ItemsInserted != int64(want.Items) || info.ExpansionRate != int64(want.Expansion) {
		t.Errorf("BF.INFO = %+v, %v, want %+v", info, err, want)
	}
	if n, err := client.BFCard(ctx, "f").Result(); err != nil || n != int64(want.Items) {
		t.Errorf("BF.CARD = %d, %v", n, err)
	}
	for i := range 1000 { // also those of the first links
		if there, err := client.BFExists(ctx, "f", fmt.Sprintf("item %d", i*i)).Result(); err != nil || !there {
			t.Fatalf("item %d is not there any more: %v", i, err)
		}
	}
	compareDumps(t, client, "f", same)
}

// compareDumps fails the test if BF.SCANDUMP does not return the chunks of the filter. It
// returns them.
func compareDumps(t *testing.T, client *redis.Client, name string, same *redisbloom.Filter) (dump []redis.ScanDump) {
	t.Helper()
	for at := int64(0); ; {
		got, err := client.BFScanDump(t.Context(), name, at).Result()
		if err != nil {
			t.Fatal(err)
		}
		next, chunk := same.ScanDump(at)
		if got.Iter != next || got.Data != string(chunk) {
			t.Fatalf("BF.SCANDUMP %d = %d with %d bytes, want %d with %d", at, got.Iter, len(got.Data), next, len(chunk))
		}
		if at = next; at == 0 {
			return dump
		}
		dump = append(dump, got)
	}
}

// A dump can be loaded again. Until it is whole the filter answers nothing.
func TestBloom_LoadChunk(t *testing.T) {
	ctx := t.Context()
	same, err := redisbloom.New(1000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		if err := same.Add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	client := serve(t)
	n := 0
	for at, chunk := range same.Chunks() {
		if err := client.BFLoadChunk(ctx, "copy", at, chunk).Err(); err != nil {
			t.Fatal(err)
		}
		if n++; n != 3 {
			continue
		}
		for _, cmd := range []redis.Cmder{client.BFAdd(ctx, "copy", "x"), client.BFExists(ctx, "copy", "x"), client.BFInfo(ctx, "copy")} {
			if err := cmd.Err(); err == nil || !strings.Contains(err.Error(), "is being loaded") {
				t.Errorf("%s of a filter that is being loaded: %v", cmd.Name(), err)
			}
		}
		if err := client.BFLoadChunk(ctx, "copy", at, chunk).Err(); err == nil || err.Error() != "ERR received bad data" {
			t.Errorf("a chunk once more: %v", err)
		}
	}
	compareDumps(t, client, "copy", same)
	for _, item := range []string{"new", "newer"} { // it is a filter like any other
		maybe, err := same.CheckAndAdd([]byte(item))
		got, err2 := client.BFAdd(ctx, "copy", item).Result()
		if errors.Join(err, err2) != nil || got == maybe {
			t.Errorf("BF.ADD = %v, %v, want %v", got, errors.Join(err, err2), !maybe)
		}
	}
	compareDumps(t, client, "copy", same)
}

// Dumps that RedisBloom's own code has written load into the server, and come back from it as
// they were.
func TestBloom_RealDumps(t *testing.T) {
	ctx := t.Context()
	client := serve(t)
	for name, chunks := range map[string]int{"redisbloom-nonscaling-cap1000-e001": 2, "redisbloom-scaling-cap100-e01": 5} {
		at := int64(1)
		var dump []redis.ScanDump
		for i := range chunks {
			chunk, err := os.ReadFile(fmt.Sprintf("../../../../bloom/compat/redisbloom/testdata/%s.%d.chunk", name, i))
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				at += int64(len(chunk))
			}
			dump = append(dump, redis.ScanDump{Iter: at, Data: string(chunk)})
			if err := client.BFLoadChunk(ctx, name, at, chunk).Err(); err != nil {
				t.Fatalf("%s, chunk %d: %v", name, i, err)
			}
		}
		at = 0
		for i, want := range append(dump, redis.ScanDump{}) {
			got, err := client.BFScanDump(ctx, name, at).Result()
			if err != nil || got != want {
				t.Errorf("%s: chunk %d has iterator %d and %d bytes, %v, want %d and %d", name, i, got.Iter, len(got.Data), err, want.Iter, len(want.Data))
			}
			at = got.Iter
		}
	}
}

// serve returns a client of a server.
func serve(t *testing.T) *redis.Client {
	t.Helper()
	s, _ := setup(t)
	addr, _ := start(t, s)
	return dial(t, addr)
}

// Many clients add the same items at once: each item is new for one of them. Nobody who was told that an item is there
// finds it missing.
func TestBloom_Concurrent(t *testing.T) {
	ctx := t.Context()
	s, _ := setup(t)
	addr, _ := start(t, s)
	const clients, items = 6, 300
	var added [items]atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		client := dial(t, addr)
		wg.Go(func() {
			for _, n := range rand.Perm(items) {
				isNew, err := client.BFAdd(ctx, "f", n).Result()
				if err != nil {
					t.Error(err)
					return
				}
				if isNew {
					added[n].Add(1)
				}
				if there, err := client.BFExists(ctx, "f", n).Result(); err != nil || !there {
					t.Errorf("BF.EXISTS %d = %v, %v", n, there, err)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for n := range added {
		if k := added[n].Load(); k > 1 {
			t.Errorf("item %d was new for %d clients", n, k)
		}
		total += added[n].Load()
	}
	if n, err := dial(t, addr).BFCard(ctx, "f").Result(); err != nil || n != total {
		t.Errorf("BF.CARD = %d, %v, want %d", n, err, total)
	}
}

// What is left of filters that are gone, by DEL or under a string, is removed, and nothing else is.
func TestSweep(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	pieces := func() (n int) {
		for _, err := range f.db.Scan(shale.Prefix([]byte{pieceSpace})) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	c.want(t, "BF.ADD stays a", ":1")
	if err := f.db.Put([]byte{pieceSpace, 'x'}, nil); err != nil { // of no layout that this program knows
		t.Fatal(err)
	}
	n := pieces()
	for _, end := range []string{"DEL gone", "SET gone x", "MSET gone x", "SETEX gone 100 x", "SET gone x XX"} {
		c.say("DEL", "gone")
		c.want(t, "BF.MADD gone a b c", "*3|:1|:1|:1")
		c.say(strings.Fields(end)...)
		c.want(t, "BF.EXISTS gone a", ":0")
		if _, err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := pieces(); got != n {
			t.Errorf("after %s there are %d pieces, want %d", end, got, n)
		}
		c.want(t, "BF.EXISTS stays a", ":1")
	}
	c.want(t, "DEL gone", ":1")
	c.want(t, "BF.ADD gone a", ":1")
	c.want(t, "BF.CARD gone", ":1")
}

// A BF.ADD writes a piece of 64 bytes, or in a compatible filter one for each bit, and the header, however large the filter is.
func TestBloom_CostOfAnAdd(t *testing.T) {
	for word, most := range map[string]uint64{"": 300, " COMPATIBLE": 1500} {
		s, f := setup(t)
		c := s.newClient()
		c.want(t, "BF.RESERVE f 0.01 1000000000"+word, "+OK")
		before := f.db.Metrics().WALBytes
		c.want(t, "BF.ADD f a", ":1")
		if n := f.db.Metrics().WALBytes - before; n > most {
			t.Errorf("%q: BF.ADD has written %d bytes", word, n)
		}
		c.want(t, "BF.EXISTS f a", ":1")
		c.want(t, "BF.EXISTS f b", ":0")
	}
}

// A filter may expire, and items that are added do not change when.
func TestBloom_Expires(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	c.want(t, "BF.ADD f a", ":1")
	c.want(t, "PEXPIREAT f 4102444800123", ":1")
	c.want(t, "BF.MADD f a b", "*2|:0|:1")
	c.want(t, "PEXPIRETIME f", ":4102444800123")
	c.want(t, "EXPIRE f -1", ":1")
	c.want(t, "BF.EXISTS f a", ":0")
	c.want(t, "BF.ADD f a", ":1")
	c.want(t, "TTL f", ":-1")
}

// Commands on strings refuse filters, and leave them as they are.
func TestBloom_IsNoString(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	c.want(t, "BF.ADD f a", ":1")
	for _, line := range []string{"INCR f", "APPEND f x", "GETSET f x", "GETDEL f", "GETEX f EX 1", "GETRANGE f 0 1", "DELIFEQ f x", "STRLEN f", "SET f x IFEQ x"} {
		c.want(t, line, "-WRONGTYPE Operation against a key holding the wrong kind of value")
	}
	c.want(t, "BF.CARD f", ":1")
}
