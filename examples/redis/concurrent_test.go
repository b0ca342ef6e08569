package main

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Many clients add the same items at once: each item is new for one of them. Nobody who was
// told that an item is there finds it missing, also while filters are saved.
func TestConcurrent_Adds(t *testing.T) {
	testenv.CheckLeaks(t)
	ctx := t.Context()
	c := settings(t)
	r := start(t, c)
	const clients, items = 6, 300
	var added [items]atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		client := r.dial(t)
		wg.Go(func() {
			for _, n := range rand.Perm(items) {
				item := longItem(n)[:leastLog/100]
				isNew, err := client.BFAdd(ctx, "f", item).Result()
				if err != nil {
					t.Error(err)
					return
				}
				if isNew {
					added[n].Add(1)
				}
				there, err := client.BFExists(ctx, "f", item).Result()
				if err != nil || !there {
					t.Errorf("client %d: BF.EXISTS %d = %v, %v", i, n, there, err)
				}
			}
		})
	}
	wg.Wait()
	client := r.dial(t)
	total := int64(0)
	for n := range added {
		if k := added[n].Load(); k > 1 {
			t.Errorf("item %d was new for %d clients", n, k)
		}
		total += added[n].Load()
	}
	if n, err := client.BFCard(ctx, "f").Result(); err != nil || n != total {
		t.Errorf("BF.CARD = %d, %v, want %d", n, err, total)
	}
	before := client.BFScanDump(ctx, "f", 0).Val()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if after := start(t, c).dial(t).BFScanDump(ctx, "f", 0).Val(); after != before {
		t.Error("the filter is another one after a restart")
	}
}

// Names become strings, filters and nothing while others use them. Replies are those of one
// of these, and nothing is left of filters that have ended.
func TestConcurrent_Kinds(t *testing.T) {
	s := direct(t, settings(t, "-sync", "no")).s
	names := []string{"a", "b", "c"}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			c := s.newClient()
			for range 1000 {
				c.mixed(t, names)
			}
		})
	}
	wg.Wait()
	s.background.Wait()
	if left := garbage(t, s); left != "" {
		t.Error(left)
	}
	for _, name := range names {
		kind := s.newClient().say("TYPE", name)
		if isFilter := s.filters.get([]byte(name)) != nil; isFilter != (kind == "+MBbloom--\r\n") {
			t.Errorf("%s: TYPE %q, a filter: %v", name, kind, isFilter)
		}
	}
}

// mixed does a command by chance on one of the names, or on all.
func (c *client) mixed(t *testing.T, names []string) {
	name := names[rand.IntN(len(names))]
	args := [][]string{
		{"SET", name, "x"},
		{"SET", name, "x", "NX"},
		append([]string{"DEL"}, names...),
		{"DEL", name},
		{"BF.RESERVE", name, "0.01", "1000"},
		{"BF.ADD", name, strconv.Itoa(rand.IntN(100))},
		{"BF.MADD", name, strconv.Itoa(rand.IntN(100)), longItem(rand.IntN(100))},
		{"BF.EXISTS", name, "1"},
		{"GET", name},
		{"BF.SCANDUMP", name, "1"},
	}[rand.IntN(10)]
	reply := c.say(args...)
	switch {
	case reply[0] != '-', strings.HasPrefix(reply, "-WRONGTYPE "), reply == "-ERR item exists\r\n", reply == "-ERR not found\r\n":
	default:
		t.Errorf("%.60q = %q", args, reply)
	}
}
