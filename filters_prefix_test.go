package shale

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/vfs"
)

// prefixStore opens a store with filters of prefixes, without cache and without compaction workers.
func prefixStore(t testing.TB, rule PrefixRule) *DB {
	t.Helper()
	opts := tinyStore(vfs.NewMem())
	opts.Tuning.FilterPrefix, opts.FilterBits, opts.CompactionWorkers, opts.CacheSize = rule, 20, -1, -1
	return openTest(t, &opts)
}

// readsOf returns how many blocks the store has read during fn, and how many tables it has passed
// over because their filters deny the prefix.
func readsOf(db *DB, fn func()) (blocks, passed uint64) {
	before := db.Metrics()
	fn()
	d := db.Metrics().Sub(before)
	return d.BlockReads, d.PrefixNegative
}

// scanKeys returns the keys of a range with spaces between them.
func scanKeys(t testing.TB, from Reader, r Range) string {
	t.Helper()
	var keys []string
	for e, err := range from.Scan(r) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(e.Key))
	}
	return strings.Join(keys, " ")
}

// A scan of an absent prefix reads nothing, although every run has keys before and after it. A scan
// of a prefix that is there finds its keys.
func TestPrefix_AbsentReadsNothing(t *testing.T) {
	db := prefixStore(t, DelimitedPrefix(':', 1))
	for round := range 3 {
		for user := range 200 {
			for event := range 5 {
				mustPut(t, db, fmt.Sprintf("user%04d:%d", 2*user, event), fmt.Sprint(round))
			}
		}
		if round < 2 {
			settle(t, db)
		}
		mustFlush(t, db)
	}
	asked := 0
	blocks, passed := readsOf(db, func() {
		for user := 1; user < 400; user += 2 {
			for _, r := range []Range{Prefix(fmt.Sprintf("user%04d:", user)), Prefix(fmt.Sprintf("user%04d:3", user)), Prefix(fmt.Sprintf("user%04d:", user)).Reversed()} {
				if got := scanKeys(t, db, r); got != "" {
					t.Fatalf("user %d has %q", user, got)
				}
				asked++
			}
		}
	})
	if want := uint64(asked * 2); passed < want*95/100 {
		t.Errorf("%d scans passed over %d tables, want nearly %d", asked, passed, want)
	}
	if blocks > uint64(asked)/50 { // 20 bits: false positives are rare
		t.Errorf("%d scans of absent prefixes read %d blocks", asked, blocks)
	}
	blocks, _ = readsOf(db, func() {
		if got := scanKeys(t, db, Prefix("user0044:")); len(strings.Fields(got)) != 5 {
			t.Errorf("user 44 has %q", got)
		}
	})
	if blocks == 0 {
		t.Error("a scan that found entries read nothing")
	}
	t.Logf("%d scans of absent prefixes passed over %d tables", asked, passed)
}

// A range that lies in no prefix of the rules in use looks at no table, however many there are.
// Here the tables are nil pointers, so that a look at one would be a fault.
func TestPrefix_LooksAtNoTableInVain(t *testing.T) {
	tables := make([]*tree.Table, 100_000)
	byTwo, byColon := FixedPrefix(2).rule, DelimitedPrefix(':', 1).rule
	for _, c := range []struct {
		rng   Range
		rules []base.PrefixRule
	}{
		{Prefix("user1:"), nil},
		{Range{}, []base.PrefixRule{byTwo, byColon}},
		{Prefix("u"), []base.PrefixRule{byTwo}},
		{Range{Lower: []byte("user"), Upper: []byte("v")}, []base.PrefixRule{byTwo, byColon}},
		{Prefix("user"), []base.PrefixRule{byColon}},
	} {
		var kept []*tree.Table
		p := newPrefixProbe(c.rng, c.rules)
		if got := p.keep(tables, &kept); len(got) != len(tables) || p.negatives != 0 {
			t.Errorf("%q to %q: %d tables are left, %d denied", c.rng.Lower, c.rng.Upper, len(got), p.negatives)
		}
	}
	for _, rules := range [][]base.PrefixRule{{byTwo}, {byColon, byTwo}} {
		if p := newPrefixProbe(Prefix("user"), rules); !p.any {
			t.Errorf("%v: no prefix is asked for, although the range lies in one", rules)
		}
	}
}

// Open refuses a prefix rule that can't be used, with an error that names the option.
func TestPrefix_BadRules(t *testing.T) {
	for _, rule := range []PrefixRule{FixedPrefix(0), FixedPrefix(-1), FixedPrefix(1 << 16), DelimitedPrefix(':', 0), DelimitedPrefix(':', -2), DelimitedPrefix(':', 256)} {
		db, err := Open("db", &Options{FS: vfs.NewMem(), Tuning: Tuning{FilterPrefix: rule}})
		if err == nil {
			_ = db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "FilterPrefix") {
			t.Errorf("Open with %v: %v", rule, err)
		}
	}
}

// The tables of a store have filters with several hash functions. A scan of a prefix asks each with its own.
func TestPrefix_SeveralHashes(t *testing.T) {
	opts := tinyStore(vfs.NewMem())
	opts.Tuning.FilterPrefix, opts.FilterBits, opts.CompactionWorkers = DelimitedPrefix(':', 1), 20, -1
	for i, hash := range []FilterHash{Murmur3, XXH3, SipHash} {
		opts.Tuning.FilterHash = hash
		db := openTest(t, &opts)
		for user := i; user < 300; user += 3 {
			mustPut(t, db, fmt.Sprintf("user%04d:", user), "v")
		}
		mustFlush(t, db)
		closeTest(t, db)
	}
	db := openTest(t, &opts)
	for user := range 300 {
		key := fmt.Sprintf("user%04d:", user)
		if got := scanKeys(t, db, Prefix(key)); got != key {
			t.Errorf("a scan finds %q, want %s", got, key)
		}
	}
}
