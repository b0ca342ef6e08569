package sketch

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// bitsetOf returns a set with these members. It fails if there is no such set.
func bitsetOf(limit uint64, members ...uint64) *Bitset {
	s := bitsetBelow(limit)
	for _, i := range members {
		if err := s.Set(i); err != nil {
			panic(err)
		}
	}
	return s
}

// checkBitset asks s everything, and compares with the sorted members.
func checkBitset(t *testing.T, s *Bitset, want []uint64, rng *rand.Rand) {
	t.Helper()
	if got := slices.Collect(s.All()); !slices.Equal(got, want) {
		t.Fatalf("All() = %d, want %d", got, want)
	}
	if s.Count() != uint64(len(want)) {
		t.Fatalf("Count() = %d, want %d", s.Count(), len(want))
	}
	if most, ok := s.Max(); ok != (len(want) > 0) || ok && most != want[len(want)-1] {
		t.Fatalf("Max() = %d, %v, want the last of %d", most, ok, want)
	}
	for range 8 {
		i := rng.Uint64N(s.Limit() + 200)
		if _, found := slices.BinarySearch(want, i); s.Has(i) != found {
			t.Fatalf("Has(%d) = %v, want %v", i, s.Has(i), found)
		}
	}
}

// A set is compared with a map after every operation, in any order.
func TestBitset_Model(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	steps, refused := 20_000, 0
	if filtertest.Short() {
		steps = 3000
	}
	const limit = 640
	s, model := bitsetBelow(limit), make(map[uint64]bool)
	draw := func() uint64 { return rng.Uint64N(limit >> rng.IntN(4)) }
	for step := range steps {
		switch op := rng.IntN(39); {
		case op < 17:
			i := draw()
			was, err := s.CheckAndSet(i)
			if was != model[i] || err != nil {
				t.Fatalf("CheckAndSet(%d) = %v, %v, want %v", i, was, err, !was)
			}
			model[i] = true
		case op < 34:
			i := draw()
			if was := s.Clear(i); was != model[i] {
				t.Fatalf("Clear(%d) = %v", i, was)
			}
			delete(model, i)
		case op == 34:
			i := limit + rng.Uint64N(math.MaxUint64-limit)
			if was, err := s.CheckAndSet(i); was || !errors.Is(err, ErrRange) || s.Has(i) || s.Clear(i) {
				t.Fatalf("CheckAndSet(%d) = %v, %v", i, was, err)
			}
			refused++
		case op == 35:
			s.Compact()
		case op == 36:
			b, _ := s.MarshalBinary()
			if err := s.UnmarshalBinary(b); err != nil {
				t.Fatal(err)
			}
		default:
			other := bitsetBelow(limit)
			has := make(map[uint64]bool)
			for range rng.IntN(300) {
				i := draw()
				has[i] = true
				_ = other.Set(i) // below the limit
			}
			combine(t, s, model, other, has, op)
		}
		if step%50 == 0 || step == steps-1 {
			checkBitset(t, s, slices.Sorted(maps.Keys(model)), rng)
		}
	}
	t.Logf("%d steps, %d numbers refused, %d members in the end", steps, refused, s.Count())
}

// combine does one operation on two sets to s and to its model.
func combine(t *testing.T, s *Bitset, model map[uint64]bool, other *Bitset, has map[uint64]bool, op int) {
	t.Helper()
	kept := filtertest.Marshal(t, other)
	switch op {
	case 37:
		if err := s.Union(other); err != nil {
			t.Fatal(err)
		}
		maps.Copy(model, has)
	case 38:
		if err := s.Intersect(other); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(model, func(i uint64, _ bool) bool { return !has[i] })
	}
	if !bytes.Equal(filtertest.Marshal(t, other), kept) {
		t.Fatal("the other set changed")
	}
}

// A number above the limit costs an error and no memory. A number below it costs
// only its place.
func TestBitset_Limit(t *testing.T) {
	var s Bitset
	for _, i := range []uint64{DefaultLimit, 1 << 40, math.MaxUint64 - 63, math.MaxUint64} {
		if err := s.Set(i); !errors.Is(err, ErrRange) {
			t.Errorf("Set(%d) = %v, want ErrRange", i, err)
		}
		if s.Has(i) || s.Clear(i) || s.SizeBytes() != 0 {
			t.Errorf("%d is there, or takes %d bytes", i, s.SizeBytes())
		}
	}
	largest := uint64(MaxLimit)
	if strconv.IntSize == 32 {
		largest = 1 << 33 // in 2^30 bytes
	}
	for _, c := range []struct{ limit, want uint64 }{
		{0, DefaultLimit}, {1, 64}, {64, 64}, {65, 128}, {largest, largest},
	} {
		if got := bitsetBelow(c.limit).Limit(); got != c.want {
			t.Errorf("NewBitset(%d).Limit() = %d, want %d", c.limit, got, c.want)
		}
	}
	small := bitsetBelow(900)
	for i := range uint64(960) {
		if err := small.Set(i); err != nil {
			t.Fatal(err)
		}
		if small.SizeBytes() > 960/8 {
			t.Fatalf("Set(%d): %d bytes", i, small.SizeBytes())
		}
	}
	if err := small.Set(960); !errors.Is(err, ErrRange) || small.Count() != 960 {
		t.Errorf("Set(960) = %v, Count() = %d", err, small.Count())
	}
	grown := bitsetBelow(0)
	if err := errors.Join(grown.Grow(0), grown.Grow(1000), grown.Grow(64)); err != nil || grown.SizeBytes() != 128 || grown.Count() != 0 {
		t.Errorf("Grow(1000): %v, %d bytes", err, grown.SizeBytes())
	}
	if _, ok := grown.Max(); ok {
		t.Error("Grow adds something")
	}
	if err := small.Grow(961); !errors.Is(err, ErrRange) {
		t.Errorf("Grow(961) = %v", err)
	}
	kept := filtertest.Marshal(t, small)
	if err := small.Union(bitsetOf(0, 7, 960)); !errors.Is(err, ErrRange) || !bytes.Equal(filtertest.Marshal(t, small), kept) {
		t.Errorf("Union beyond the limit: %v", err)
	}
	if b, _ := bitsetOf(0, 960).MarshalBinary(); !errors.Is(small.UnmarshalBinary(b), ErrRange) || !bytes.Equal(filtertest.Marshal(t, small), kept) {
		t.Error("bytes beyond the limit are taken")
	}
}

// A loop that removes each member that it is shown sees all members, and may stop early.
func TestBitset_ChangedWhileListed(t *testing.T) {
	var members []uint64
	for i := range uint64(300) {
		members = append(members, 3*i)
	}
	s := bitsetOf(0, members...)
	var seen []uint64
	for i := range s.All() {
		seen = append(seen, i)
		if s.Clear(i); i == 0 {
			_ = s.Set(5000) // seen in its turn
		}
	}
	if want := append(members, 5000); !slices.Equal(seen, want) {
		t.Errorf("seen %d, want %d", seen, want)
	}
	if s.Count() != 0 {
		t.Errorf("Count() = %d", s.Count())
	}
	for range bitsetOf(0, 1, 2, 3).All() {
		break
	}
}
