package typed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

// What a map, its indexes and a counter store is part of the format, and never changes (docs/FORMAT.md).
func TestMap_Golden(t *testing.T) {
	db := open(t)
	u := newUsers("u")
	raw := NewMap("r\x00", Tuple2(String, Bool), AsValue(Time))
	update(t, db, func(tx *shale.Txn) error {
		_, err := Add(tx, []byte("n"), -2)
		return errors.Join(err,
			u.Put(tx, 5, user{"e", "c\x00", []string{"x", "y", "x"}}),
			raw.Put(tx, Pair[string, bool]{"k", true}, time.Unix(1, 2)))
	})
	format, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, golden, _ := strings.Cut(string(format), "```example typed\n")
	golden, _, _ = strings.Cut(golden, "```")
	if got := dump(t, db); got != golden {
		t.Errorf("the store has\n%sdocs/FORMAT.md says\n%s", got, golden)
	}
	update(t, db, func(tx *shale.Txn) error { return u.Reset(tx) })
	const reset = `"u\x00\x03" = "\x00city\x00\x01email\x00\x01tag\x00\x01"
"u\x00\x04" = "u\x00\x02"
`
	if got := dump(t, db); !strings.HasSuffix(got, reset) {
		t.Errorf("after Reset the store has\n%swant, at its end,\n%s", got, reset)
	}
}

// Maps do not mix, whatever their names.
func TestMap_Names(t *testing.T) {
	db := open(t)
	names := []string{"", "a", "ab", "a\x00", "a\x00\x01", "a\x00\x02", "a\xff", "\xff\xff", "\x00", "\x01"}
	for i, name := range names {
		m := NewMap(name, Bytes, AsValue(Int))
		byValue := NewIndex(m, name, Int, func(n int) int { return n })
		update(t, db, func(tx *shale.Txn) error {
			return errors.Join(m.Put(tx, nil, i), m.Put(tx, []byte{0, 1}, i), m.Put(tx, []byte{0xff}, i), byValue.m.Delete(tx, []byte("x")))
		})
	}
	for i, name := range names {
		m := NewMap(name, Bytes, AsValue(Int))
		byValue := NewIndex(m, name, Int, func(n int) int { return n })
		want(t, name, m.All(db), fmt.Sprintf("{[] %d} {[0 1] %d} {[255] %d}", i, i, i))
		want(t, name, byValue.Scan(db, Range[int]{}), fmt.Sprintf("{%d {[] %d}} {%d {[0 1] %d}} {%d {[255] %d}}", i, i, i, i, i, i))
	}
}

// Scans of ranges of every kind, of a map and of an index, show what a sorted list has.
func TestScan_Ranges(t *testing.T) {
	type key = Pair[string, int64]
	type by = Pair[bool, string]
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	db := open(t)
	m := NewMap("m", Tuple2(String, Int64), AsValue(String))
	index := NewIndex(m, "i", Tuple2(Bool, String), func(v string) by { return by{len(v) > 1, v} })
	texts := []string{"", "\x00", "a", "a\x00", "a\x00\x01", "a\xff", "a\xff\xff", "b", "\xff", "\xff\xff"}
	numbers := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	text := func() string { return texts[r.IntN(len(texts))] }
	number := func() int64 { return numbers[r.IntN(len(numbers))] }
	model := make(map[key]string)
	update(t, db, func(tx *shale.Txn) error {
		for range 40 {
			k, v := key{text(), number()}, text()
			if model[k] = v; r.IntN(4) == 0 {
				delete(model, k)
				v = "gone"
			}
			if err := m.Put(tx, k, v); err != nil {
				return err
			}
			if v == "gone" {
				if err := m.Delete(tx, k); err != nil {
					return err
				}
			}
		}
		return nil
	})
	keys := func(a, b key) int { return cmp.Or(strings.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second)) }
	values := func(a, b by) int {
		return cmp.Or(number01(a.First)-number01(b.First), strings.Compare(a.Second, b.Second))
	}
	var entries []Entry[key, string]
	var found []Found[by, key, string]
	for k, v := range model {
		entries = append(entries, Entry[key, string]{k, v})
		found = append(found, Found[by, key, string]{by{len(v) > 1, v}, Entry[key, string]{k, v}})
	}
	slices.SortFunc(entries, func(a, b Entry[key, string]) int { return keys(a.Key, b.Key) })
	slices.SortFunc(found, func(a, b Found[by, key, string]) int { return cmp.Or(values(a.By, b.By), keys(a.Key, b.Key)) })
	for range 2000 {
		reverse, keysOnly, limit := r.IntN(2) == 0, r.IntN(4) == 0, max(0, r.IntN(30)-10)
		a, b := key{text(), number()}, key{text(), number()}
		rng, in := someRange(r, a, b, keys, WithFirst[int64](a.First), func(k key) bool { return k.First == a.First })
		rng.Reverse, rng.KeysOnly, rng.Limit = reverse, keysOnly, limit
		what := fmt.Sprintf("SHALE_SEED=%d: from %+v to %+v, %+v", seed, a, b, rng)
		want(t, what, m.Scan(db, rng), expected(entries, rng, func(e Entry[key, string]) key { return e.Key }, in,
			func(e *Entry[key, string]) { e.Value = "" }))

		x, y := by{r.IntN(2) == 0, text()}, by{r.IntN(2) == 0, text()}
		byRange, in2 := someRange(r, x, y, values, WithFirst[string](x.First), func(k by) bool { return k.First == x.First })
		byRange.Reverse, byRange.KeysOnly, byRange.Limit = reverse, keysOnly, limit
		what = fmt.Sprintf("SHALE_SEED=%d: from %v to %v, %+v", seed, x, y, byRange)
		want(t, what, index.Scan(db, byRange), expected(found, byRange, func(f Found[by, key, string]) by { return f.By }, in2,
			func(f *Found[by, key, string]) { f.Value = "" }))
	}
}

// someRange returns a range of one kind, and whether it has a key.
func someRange[K any](r *rand.Rand, a, b K, compare func(a, b K) int, first Range[K], isFirst func(K) bool) (Range[K], func(K) bool) {
	switch r.IntN(7) {
	case 0:
		return Range[K]{}, func(K) bool { return true }
	case 1:
		return From(a), func(k K) bool { return compare(k, a) >= 0 }
	case 2:
		return Below(a), func(k K) bool { return compare(k, a) < 0 }
	case 3:
		return Only(a), func(k K) bool { return compare(k, a) == 0 }
	case 4:
		return first, isFirst
	case 5:
		first.Lower, first.Upper = &a, &b
		return first, func(k K) bool { return isFirst(k) && compare(k, a) >= 0 && compare(k, b) < 0 }
	}
	return Between(a, b).Reversed(), func(k K) bool { return compare(k, a) >= 0 && compare(k, b) < 0 }
}

// expected returns what a loop over a range of a sorted list yields.
func expected[K, E any](list []E, rng Range[K], key func(E) K, in func(K) bool, noValue func(*E)) string {
	list = slices.DeleteFunc(slices.Clone(list), func(e E) bool { return !in(key(e)) })
	if rng.Reverse {
		slices.Reverse(list)
	}
	if rng.Limit > 0 {
		list = list[:min(rng.Limit, len(list))]
	}
	var s []string
	for _, e := range list {
		if rng.KeysOnly {
			noValue(&e)
		}
		s = append(s, fmt.Sprint(e))
	}
	return strings.Join(s, " ")
}

func TestScan_Prefix(t *testing.T) {
	db := open(t)
	m := NewMap("m", String, Raw)
	for _, k := range []string{"", "a", "ab", "ab\xff", "ac", "\xff", "\xff\xff", "\xff\xffz"} {
		if err := m.Put(db, k, nil); err != nil {
			t.Fatal(err)
		}
	}
	for p, list := range map[string]string{"": "{ []} {a []} {ab []} {ab\xff []} {ac []} {\xff []} {\xff\xff []} {\xff\xffz []}",
		"ab": "{ab []} {ab\xff []}", "ab\xff": "{ab\xff []}", "\xff\xff": "{\xff\xff []} {\xff\xffz []}", "b": ""} {
		want(t, p, m.Scan(db, Prefix(p)), list)
	}
}

// Values of every codec come back, and bytes that are none give an error that names map and key.
func TestValues(t *testing.T) {
	comesBack(t, Raw, []byte("a\x00"))
	comesBack(t, AsValue(String), "text")
	comesBack(t, Counter, -7, "1234567")
	comesBack(t, JSON[[]int](), []int{1, 2}, "[1] 2", "")
	comesBack(t, Gob[map[string]int](), map[string]int{"a": 1}, "", "x", "\x03\x04\x00\x02\x00")
	comesBack(t, Binary[netip.Addr](), netip.MustParseAddr("::1"), "12345")
	b, err := Gob[int]().Append(nil, 1)
	if _, err2 := Gob[int]().Decode(append(b, 0)); err != nil || err2 == nil {
		t.Errorf("a byte behind a value: %v, %v", err, err2)
	}
}

func comesBack[V any](t *testing.T, c ValueCodec[V], value V, damaged ...string) {
	t.Helper()
	db := open(t)
	m := NewMap("m", String, c)
	if err := m.Put(db, "k", value); err != nil {
		t.Fatal(err)
	}
	if again, err := m.Get(db, "k"); err != nil || fmt.Sprint(again) != fmt.Sprint(value) {
		t.Errorf("%T: %v, %v; want %v", c, again, err, value)
	}
	for _, data := range damaged {
		if err := db.Put([]byte("m\x00\x01k"), []byte(data)); err != nil {
			t.Fatal(err)
		}
		_, err := m.Get(db, "k")
		_, errScan := all(m.All(db))
		for _, err := range []error{err, errScan} {
			if err == nil || !strings.HasPrefix(err.Error(), `typed: map "m", key "k": `) {
				t.Errorf("%T: the value %q: %v", c, data, err)
			}
		}
	}
}

// Absent and present keys, in all that reads.
func TestMap_Reads(t *testing.T) {
	db := open(t)
	m := NewMap("m", Uint64, AsValue(String))
	var batch shale.Batch
	if err := errors.Join(m.Put(&batch, 1, "one"), m.Delete(&batch, 3), m.Put(batch.Sub(""), 2, ""), db.Write(t.Context(), &batch)); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(db.Sub("sub/"), 1, "sub"); err != nil {
		t.Fatal(err)
	}
	snapshot, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	err = db.View(func(tx *shale.Txn) error {
		for name, r := range map[string]shale.Reader{"DB": db, "Snapshot": snapshot, "Txn": tx, "Untracked": tx.Untracked(), "Sub": tx.Sub("")} {
			if v, err := m.Get(r, 1); v != "one" || err != nil {
				t.Errorf("%s: Get = %q, %v", name, v, err)
			}
			if v, err := m.Get(r, 3); v != "" || err != shale.ErrNotFound {
				t.Errorf("%s: Get of an absent key = %q, %v", name, v, err)
			}
			has, err := m.Has(r, 2)
			hasNot, err2 := m.Has(r, 3)
			if !has || hasNot || err != nil || err2 != nil {
				t.Errorf("%s: Has = %v, %v; %v, %v", name, has, err, hasNot, err2)
			}
			want(t, name, m.All(r), "{1 one} {2 }")
		}
		if v, err := m.Get(tx.Sub("sub/"), 1); v != "sub" || err != nil {
			t.Errorf("in a Sub: %q, %v", v, err)
		}
		if err := m.Put(tx, 1, ""); !errors.Is(err, shale.ErrReadOnly) {
			t.Errorf("Put in a View = %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if k, err := m.Key(1); err != nil || !db.MayContain(k) {
		t.Errorf("Key = %q, %v", k, err)
	}
}

// A foreign key in the place of an entry, or of an index, is an error of loops and of Check, which names it.
func TestScan_ForeignKey(t *testing.T) {
	db := open(t)
	u := newUsers("u")
	update(t, db, func(tx *shale.Txn) error { return u.Put(tx, 1, user{City: "Rome"}) })
	for key, loop := range map[string]func() (string, error){
		"u\x00\x01short":                         func() (string, error) { return all(u.All(db)) },
		"u\x00\x02city\x00\x01Rome\x00":          func() (string, error) { return all(u.city.Scan(db, Prefix("R"))) },
		"u\x00\x02city\x00\x01Rome\x00\x01short": func() (string, error) { return all(u.city.Scan(db, Range[string]{KeysOnly: true})) },
	} {
		if err := db.Put([]byte(key), nil); err != nil {
			t.Fatal(err)
		}
		_, err := loop()
		if err == nil || !strings.HasPrefix(err.Error(), `typed: map "u"`) || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
			t.Errorf("%q: %v", key, err)
		}
		if err := u.Check(t.Context(), db); err == nil {
			t.Errorf("Check passes over %q", key)
		}
		if err := db.Delete([]byte(key)); err != nil {
			t.Fatal(err)
		}
		if _, err := loop(); err != nil {
			t.Error(err)
		}
	}
}

// Each call returns the error of the store or of the transaction, and no answer.
func TestMap_Closed(t *testing.T) {
	ctx, db := t.Context(), open(t)
	u, hits := newUsers("u"), NewMap("hits", String, Counter)
	update(t, db, func(tx *shale.Txn) error { return errors.Join(u.Put(tx, 1, user{City: "Rome"}), hits.Put(tx, "a", 1)) })
	tx, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	tx.Discard()
	reads := func(r shale.Reader) map[string]error {
		_, get := u.Get(r, 1)
		_, has := u.Has(r, 1)
		_, loop := all(u.All(r))
		_, index := all(u.city.Scan(r, Only("Rome")))
		_, _, one := u.city.Get(r, "Rome")
		return map[string]error{"Get": get, "Has": has, "All": loop, "Index.Scan": index, "Index.Get": one, "Check": u.Check(ctx, r)}
	}
	check := func(where string, want error, errs map[string]error) {
		for name, err := range errs {
			if !errors.Is(err, want) {
				t.Errorf("%s: %s = %v", where, name, err)
			}
		}
	}
	check("Txn", shale.ErrTxnDone, reads(tx))
	_, add := Add(tx, []byte("n"), 1)
	_, addTo := AddTo(tx, hits, "a", 1)
	_, step := u.BuildStep(tx)
	check("Txn", shale.ErrTxnDone, map[string]error{"Put": u.Put(tx, 1, user{}), "Delete": u.Delete(tx, 1), "plain Put": hits.Put(tx, "a", 1),
		"Add": add, "AddTo": addTo, "BuildStep": step, "Reset": u.Reset(tx)})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check("DB", shale.ErrClosed, reads(db))
	check("DB", shale.ErrClosed, map[string]error{"Put": hits.Put(db, "a", 1), "Delete": hits.Delete(db, "a"), "Build": u.Build(ctx, db)})
}

// Ranges that a codec does not have are errors of the loop.
func TestScan_NoRange(t *testing.T) {
	db := open(t)
	type pair = Pair[string, float64]
	m := NewMap("m", Tuple2(String, Float64), Raw)
	other := NewMap("n", Convert(m.keys, func(p pair) pair { return p }, func(p pair) (pair, error) { return p, nil }), Raw)
	nan := pair{"", math.NaN()}
	for name, loop := range map[string]func() (string, error){
		"From":      func() (string, error) { return all(m.Scan(db, From(nan))) },
		"Below":     func() (string, error) { return all(m.Scan(db, Below(nan))) },
		"WithFirst": func() (string, error) { return all(other.Scan(db, WithFirst[float64](""))) },
	} {
		if _, err := loop(); err == nil || !strings.HasPrefix(err.Error(), "typed: map ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.Get(db, nan); err == nil || err == shale.ErrNotFound {
		t.Errorf("Get = %v", err)
	}
	if _, err := m.Has(db, nan); err == nil {
		t.Error("Has of a key that is none")
	}
}

// What doc.go says of allocations.
func TestMap_Allocations(t *testing.T) {
	testenv.SkipRace(t)
	db := open(t)
	m := NewMap("m", Tuple2(String, Time), AsValue(Uint64))
	here, absent := Pair[string, time.Time]{"a", time.Now()}, Pair[string, time.Time]{"b", time.Now()}
	if err := m.Put(db, here, 1); err != nil {
		t.Fatal(err)
	}
	for name, fn := range map[string]func() error{
		"Has":            func() error { _, err := m.Has(db, here); return err },
		"Get, absent":    func() error { _, err := m.Get(db, absent); return err },
		"Get, a present": func() error { _, err := m.Get(db, here); return err },
	} {
		if n := testing.AllocsPerRun(200, func() {
			if err := fn(); err != nil && err != shale.ErrNotFound {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
