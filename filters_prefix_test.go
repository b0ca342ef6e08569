package shale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
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

// Filters of prefixes hide no key. RocksDB once lost keys in these cases (its issues
// 4024, 5835, 8137 and 12872: prefixes that are added once across a boundary, separators equal to
// the next prefix, seeks backward), and some more.
func TestPrefix_HidesNothing(t *testing.T) {
	long := strings.Repeat("x", 200)
	cases := []struct {
		name string
		rule PrefixRule
		keys []string
		ask  []string // prefixes
	}{
		{"a key that is its own prefix", FixedPrefix(2), []string{"aa", "ab", "abc", "ac"}, []string{"ab", "abc", "a"}},
		{"the prefix of one key is the one before", FixedPrefix(3), []string{"ab", "abc", "abcd", "abd"}, []string{"abc", "abd", "ab"}},
		{"keys without a prefix in between", DelimitedPrefix('/', 2), []string{"a", "a/", "a/b", "a/b/", "a/b/c", "a/b0", "b", "b/c/d"}, []string{"a/b/", "a/b", "a/", "b/c/", "b/c/d"}},
		{"one prefix over many blocks", FixedPrefix(1), numbered("a", 40, long), []string{"a", "a0", "a39"}},
		{"prefixes begin where blocks do", DelimitedPrefix(':', 1), numbered("", 40, ":"+long), []string{"00:", "17:", "39:", "39:x"}},
		{"separators that are the next prefix", FixedPrefix(2), []string{"a\xff" + long, "b\x00" + long, "b\x01", "b\x01\x00", "b\x02" + long}, []string{"b\x00", "b\x01", "b\x02", "a\xff"}},
		{"0xff", FixedPrefix(2), []string{"\xff", "\xff\xff", "\xff\xff\xff", "\xfe\xff\x00"}, []string{"\xff\xff", "\xff", "\xfe\xff"}},
		{"empty keys", FixedPrefix(1), []string{"", "\x00", "\x00\x00"}, []string{"", "\x00"}},
	}
	for _, c := range cases {
		for _, from := range []string{"one table", "a table a key", "settled"} {
			t.Run(c.name+"/"+from, func(t *testing.T) {
				db := prefixStore(t, c.rule)
				for _, k := range c.keys {
					mustPut(t, db, k, "v")
					if from == "a table a key" {
						mustFlush(t, db)
					}
				}
				if mustFlush(t, db); from == "settled" {
					settle(t, db)
				}
				for _, p := range c.ask {
					var want []string
					for _, k := range slices.Sorted(slices.Values(c.keys)) {
						if strings.HasPrefix(k, p) {
							want = append(want, k)
						}
					}
					checkRange(t, db, Prefix(p), want)
				}
			})
		}
	}
}

// numbered returns n keys with numbers of two digits between before and after.
func numbered(before string, n int, after string) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%02d%s", before, i, after)
	}
	return keys
}

// checkRange checks that scans and seeks in a range, forward and backward, find the wanted keys.
func checkRange(t *testing.T, from Reader, r Range, want []string) {
	t.Helper()
	if got := scanKeys(t, from, r); got != strings.Join(want, " ") {
		t.Errorf("Scan(%q to %q) = %q, want %q", r.Lower, r.Upper, got, want)
	}
	back := slices.Clone(want)
	slices.Reverse(back)
	if got := scanKeys(t, from, r.Reversed()); got != strings.Join(back, " ") {
		t.Errorf("Scan(%q to %q) backwards = %q, want %q", r.Lower, r.Upper, got, back)
	}
	it := from.NewIterator(r)
	defer it.Close()
	for i, k := range want {
		if !it.SeekGE([]byte(k)) || string(it.Key()) != k {
			t.Errorf("SeekGE(%q) is at %q, %v", k, it.Key(), it.Err())
		}
		if it.SeekLT([]byte(k)) != (i > 0) || i > 0 && string(it.Key()) != want[i-1] {
			t.Errorf("SeekLT(%q) is at %q, %v", k, it.Key(), it.Err())
		}
	}
	if it.Last() != (len(want) > 0) || len(want) > 0 && string(it.Key()) != want[len(want)-1] {
		t.Errorf("Last is at %q, want %q", it.Key(), want)
	}
}

// Random ranges over random keys give what a sorted list of the keys gives.
func TestPrefix_Random(t *testing.T) {
	testenv.SkipRace(t)
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	passed := uint64(0)
	word := func(most int) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = "ab:\x00\xff"[r.IntN(5)]
		}
		return string(b)
	}
	rules := []PrefixRule{FixedPrefix(1), FixedPrefix(2), FixedPrefix(4), DelimitedPrefix(':', 1), DelimitedPrefix(':', 2), DelimitedPrefix(0xff, 1)}
	for round := range 40 {
		db := prefixStore(t, rules[round%len(rules)])
		there := make(map[string]bool)
		for i := range 60 {
			key := word(6)
			if there[key] = r.IntN(4) > 0; there[key] {
				mustPut(t, db, key, "v")
			} else if err := db.Delete([]byte(key)); err != nil {
				t.Fatal(err)
			}
			if i%15 == 14 {
				mustFlush(t, db)
			}
			if i == 30 {
				settle(t, db)
			}
		}
		_, n := readsOf(db, func() {
			for range 200 {
				rng := Prefix(word(5))
				switch r.IntN(4) {
				case 0:
					rng = Range{Lower: []byte(word(5)), Upper: []byte(word(5))}
				case 1:
					rng.Lower = append(rng.Lower, word(2)...)
				case 2:
					rng.Upper = append(rng.Upper, word(1)...)
				}
				var want []string
				for key, is := range there {
					if is && key >= string(rng.Lower) && (rng.Upper == nil || key < string(rng.Upper)) {
						want = append(want, key)
					}
				}
				slices.Sort(want)
				checkRange(t, db, rng, want)
			}
		})
		passed += n
	}
	if passed < 100 {
		t.Errorf("only %d tables were passed over", passed)
	}
	t.Logf("%d tables passed over", passed)
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
