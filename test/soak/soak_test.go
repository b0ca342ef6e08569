package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(childMain(os.Stdout))
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
	c := config{time: 2 * time.Second, limit: 500 * time.Millisecond, keys: 400, seed: uint64(time.Now().UnixNano())}
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
	harms := map[string]func(db *shale.DB, keys []string) error{
		// All of them: what was under way may explain one.
		"lost keys": func(db *shale.DB, keys []string) (err error) {
			for _, key := range keys {
				err = errors.Join(err, db.Delete([]byte(key)))
			}
			return err
		},
		"a strange key":   func(db *shale.DB, _ []string) error { return db.Put([]byte("stranger"), nil) },
		"a strange value": func(db *shale.DB, keys []string) error { return db.Put([]byte(keys[0]), []byte("strange")) },
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config{time: time.Minute, limit: 200 * time.Millisecond, keys: 100, seed: 7}
			harmed := false
			c.between = func(store string) {
				if !harmed {
					var err error
					if harmed, err = harmStore(store, harm); err != nil {
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

// harmStore harms the store if there is much in it already.
func harmStore(store string, harm func(*shale.DB, []string) error) (done bool, err error) {
	db, err := shale.Open(store, nil)
	if err != nil {
		return false, err
	}
	defer db.Close()
	s, err := harness.Read(db)
	if err != nil || s.Len() < 100 {
		return false, err
	}
	var keys []string
	for _, e := range s.Entries()[:80] {
		keys = append(keys, e.Key)
	}
	return true, harm(db, keys)
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
			tr.samples = append(tr.samples, c.at(i))
		}
		if err := tr.check(); (err != nil) != c.grows {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
