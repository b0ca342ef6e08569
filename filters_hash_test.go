package shale

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Each store has its own secret for SipHash, and keeps it as long as it has a filter that was made
// with it.
func TestFilterHash_Secret(t *testing.T) {
	hashers := make(map[bloom.Hasher]bool)
	for store := range 3 {
		opts := tinyStore(vfs.NewMem())
		opts.testing.seed, opts.Tuning.FilterHash = 0, SipHash
		var first bloom.Hasher
		for life := range 3 {
			db := openTest(t, &opts)
			if life == 0 {
				first = db.hasher
			} else if db.hasher != first {
				t.Errorf("store %d has the hasher %v in life %d, before %v", store, db.hasher, life, first)
			}
			mustPut(t, db, fmt.Sprint("key", life), "v")
			mustFlush(t, db)
			if f := db.mems.View().Runs[0].Tables[0].Filter(); f.Hasher() != db.hasher {
				t.Errorf("a filter has the hasher %v, the store %v", f.Hasher(), db.hasher)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if hashers[first] || first.ID() != bloom.HashSipHash {
			t.Errorf("store %d has the hasher %v, like another", store, first)
		}
		hashers[first] = true
	}
}

// TestSipHash_SecretOfFiltersNotInMemory opens a store whose filters have no room in memory. It goes on
// with their secret: with another one, each lookup would hash its key once more for each opening in
// which a table was written, and RebuildFilters would make all filters again.
func TestSipHash_SecretOfFiltersNotInMemory(t *testing.T) {
	opts := small()
	opts.Tuning.FilterHash, opts.FilterMemory, opts.CompactionWorkers = SipHash, 1, -1
	var first bloom.Hasher
	for life := range 3 {
		db := openTest(t, opts)
		if life == 0 {
			first = db.hasher
		}
		if db.hasher != first {
			t.Errorf("life %d has the hasher %v, the first had %v", life, db.hasher, first)
		}
		mustPut(t, db, fmt.Sprint("key", life), "value")
		mustFlush(t, db)
		if r := mustRebuild(t, db); r.Rebuilt > 0 {
			t.Errorf("life %d: %d of %d filters are made again", life, r.Rebuilt, r.Tables)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// collisions returns 256 keys that have the same murmur3 hash under any seed: all pairs of 16 known
// blocks.
func collisions(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(testenv.Shared(t, "vectors/murmur3-128-universal-collisions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var units, keys []string
	for in := bufio.NewScanner(f); in.Scan(); {
		for field := range strings.FieldsSeq(in.Text()) {
			if b, err := hex.DecodeString(field); err == nil && len(b) == 128 {
				units = append(units, string(b))
			}
		}
	}
	for _, a := range units {
		for _, b := range units {
			keys = append(keys, a+b)
		}
	}
	if len(keys) != 256 || bloom.Hash([]byte(keys[0])) != bloom.Hash([]byte(keys[255])) {
		t.Fatalf("%d keys, or they do not collide", len(keys))
	}
	return keys
}

// Keys that an attacker has made to collide are all false positives under a hash without a secret,
// and an event reports the filter. With SipHash they are as rare as other false positives.
func TestFilterHash_KeysFromStrangers(t *testing.T) {
	keys := collisions(t)
	for _, c := range []struct {
		hash FilterHash
		all  bool
	}{{Murmur3, true}, {XXH3, false}, {SipHash, false}} {
		opts := tinyStore(vfs.NewMem())
		opts.Tuning.FilterHash, opts.CompactionWorkers, opts.MemtableSize = c.hash, -1, 1<<20
		var told atomic.Pointer[Event]
		opts.OnEvent = func(e Event) {
			if e.Kind == EventFilterWorse {
				told.Store(&e)
			}
		}
		db := openTest(t, &opts)
		mustPut(t, db, keys[0], "v")
		for i := range 1000 {
			mustPut(t, db, fmt.Sprintf("%c%d", i, i), "v")
		}
		mustFlush(t, db)
		for _, k := range keys[1:] {
			wantGet(t, db, k, "", false)
		}
		wantGet(t, db, keys[0], "v", true)
		m := db.Metrics()
		if all := m.FilterFalsePositive == 255; all != c.all || !all && m.FilterFalsePositive > 5 {
			t.Errorf("hash %d: %d false positives", c.hash, m.FilterFalsePositive)
		}
		if e := told.Load(); (e != nil) != c.all || m.WorseFilters != 0 != c.all {
			t.Errorf("hash %d: event %+v, %d filters said to be worse", c.hash, e, m.WorseFilters)
		} else if e != nil && (len(e.Tables) != 1 || !strings.Contains(e.Reason, "predicted")) {
			t.Errorf("event %+v", *e)
		}
	}
}
