package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(childMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// soak runs a short test in a directory of the test's.
func soak(t *testing.T, c config) (string, error) {
	t.Helper()
	c.dir, c.every = t.TempDir(), time.Hour
	var out bytes.Buffer
	err := run(context.Background(), c, &out)
	return out.String(), err
}

// A run without findings says so, and leaves nothing behind.
func TestSoak(t *testing.T) {
	c := config{time: 2 * time.Second, limit: 500 * time.Millisecond, keys: 4000, seed: uint64(time.Now().UnixNano())}
	if testing.Short() {
		c.time = time.Second
	}
	out, err := soak(t, c)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	t.Logf("seed %d: %s", c.seed, lines[len(lines)-1])
}

// Whatever happens to the store between two lives is found.
func TestSoak_Notices(t *testing.T) {
	first := appendKey(nil, 7, 0, 0) // a twin: it is there since the first batch
	harms := map[string]func(db *shale.DB) error{
		"a lost key":      func(db *shale.DB) error { return db.Delete(first) },
		"a strange key":   func(db *shale.DB) error { return db.Put([]byte("stranger"), nil) },
		"a strange value": func(db *shale.DB) error { return db.Put(first, []byte("strange")) },
		"an old value": func(db *shale.DB) error {
			return db.Put(first, appendValue(nil, 7, 0, 0, newStamp(1, 0)))
		},
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config{time: time.Minute, limit: 200 * time.Millisecond, keys: 1000, seed: 7}
			harmed := false
			c.between = func(_ int, store string) {
				if !harmed {
					var err error
					if harmed, err = harmStore(store, first, harm); err != nil {
						t.Error(err)
					}
				}
			}
			out, err := soak(t, c)
			if err != errFinding || !strings.Contains(out, "FINDING (seed 7): life") || !strings.Contains(out, "a wrong answer") {
				t.Errorf("the run ended with %v:\n%s", err, out)
			}
		})
	}
}

// harmStore harms the store if the key is there already.
func harmStore(store string, key []byte, harm func(*shale.DB) error) (done bool, err error) {
	db, err := shale.Open(store, nil)
	if err != nil {
		return false, err
	}
	defer db.Close()
	if has, err := db.Has(key); !has || err != nil {
		return false, err
	}
	return true, harm(db)
}

// Commits, keys and values are those of the seed, and can be read back.
func TestCommits(t *testing.T) {
	const slots = 500
	kinds := make(map[commitKind]int)
	var buf []byte
	for n := uint64(1); n < 3000; n++ {
		c, again := commitOf(3, 1, n, slots), commitOf(3, 1, n, slots)
		if fmt.Sprint(c) != fmt.Sprint(again) {
			t.Fatalf("commit %d is %v and then %v", n, c, again)
		}
		kinds[c.kind]++
		for _, ch := range c.changes {
			if ch.stamp.commit() != n || ch.slot < 0 || ch.slot >= slots {
				t.Fatalf("commit %d changes %v", n, ch)
			}
			if ch.stamp.visible() == 0 {
				continue
			}
			value := appendValue(nil, 3, 1, ch.slot, ch.stamp)
			if s, err := readValue(value, 3, 1, ch.slot, &buf); err != nil || s != ch.stamp {
				t.Fatalf("the value of %v is read as %v, %v", ch.stamp, s, err)
			}
			value[len(value)-1]++
			if s, err := readValue(value, 3, 1, ch.slot, &buf); err == nil && s == ch.stamp {
				t.Fatalf("the value of %v, changed, is accepted", ch.stamp)
			}
		}
	}
	for kind := commitPut; kind <= commitBatch; kind++ {
		if kinds[kind] == 0 {
			t.Errorf("there are no commits of kind %d", kind)
		}
	}
	last := ""
	for w := range writers {
		for slot := range slots {
			key := appendKey(nil, 3, w, slot)
			if string(key) <= last {
				t.Fatalf("key %q follows %q", key, last)
			}
			if gw, gs, err := parseKey(key, 3); gw != w || gs != slot || err != nil {
				t.Fatalf("key %q is read as %d, %d, %v", key, gw, gs, err)
			}
			last = string(key)
		}
	}
}

func TestHistogram(t *testing.T) {
	for ns := time.Duration(1); ns < time.Minute; ns += 1 + ns/7 {
		b := bucketOf(uint64(ns))
		if lo, hi := bucketStart(b), bucketStart(b+1); ns < lo || ns >= hi || hi > lo+lo/8+1 {
			t.Fatalf("%d ns are in the bucket from %d to %d", ns, lo, hi)
		}
	}
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i) * time.Microsecond)
	}
	if q := quantile(h.take(), 0.99); q < 985*time.Microsecond || q > 1115*time.Microsecond {
		t.Errorf("the 99th percentile of 1000 durations up to a millisecond is %v", q)
	}
	if n := h.take(); len(n) != 0 {
		t.Errorf("taken twice: %v", n)
	}
}

// What grows slowly is told from what goes up and down.
func TestTrend(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    func(i int) resources
		grows bool
	}{
		{"steady", func(i int) resources { return resources{uint64(9+i%5) << 20, uint64(90+i%7) << 20, 9 + i%4, 9 + i%3} }, false},
		{"heap", func(i int) resources { return resources{Heap: uint64(i) << 19} }, true},
		{"RSS", func(i int) resources { return resources{RSS: uint64(i) << 23} }, true},
		{"descriptors", func(i int) resources { return resources{Descriptors: 9 + i%4 + i/10} }, true},
		{"goroutines", func(i int) resources { return resources{Goroutines: 9 + i%4 + i/10} }, true},
		{"only at first", func(i int) resources { return resources{Goroutines: min(i, 4)} }, false},
	} {
		tr := trend{name: c.name}
		for i := range 40 {
			tr.add(c.at(i))
		}
		if err := tr.check(); (err != nil) != c.grows {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A call that does not return is told of, not one that has returned, or that
// still moves something.
func TestWatch(t *testing.T) {
	bytes := int64(1)
	w := watch{since: make(map[string]time.Duration), progress: func() int64 { return bytes }}
	err := w.call("reader", func() error {
		for i := range 3 * patience / tick {
			if err := w.check(); err != nil {
				t.Fatal(err)
			}
			if w.advance(); i%100 == 0 {
				bytes++
			}
		}
		for range 2 * patience / tick {
			w.advance()
			if err := w.check(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "reader hangs") {
		t.Errorf("a call that hangs: %v", err)
	}
	if err := w.check(); err != nil {
		t.Errorf("after the call: %v", err)
	}
}
