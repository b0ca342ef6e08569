package data

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

func TestSpace(t *testing.T) {
	const n = 3000
	for _, kind := range Kinds {
		s := NewSpace(kind, n)
		var k Key
		present := map[string]bool{}
		for i := range uint64(n) {
			present[string(s.Present(&k, i))] = true
		}
		if len(present) != n {
			t.Errorf("%s: %d keys, want %d", kind, len(present), n)
		}
		sorted := make([]string, 0, n)
		for key := range present {
			if len(key) != KeySize {
				t.Fatalf("%s: key %q", kind, key)
			}
			sorted = append(sorted, key)
		}
		slices.Sort(sorted)
		for i := range uint64(n) {
			key := string(s.Absent(&k, i))
			if present[key] {
				t.Fatalf("%s: absent key %q is present", kind, key)
			}
			if kind == "structured" && (key < sorted[0] || key > sorted[n-1]) {
				t.Errorf("%s: absent key %q lies outside", kind, key)
			}
		}
		for i := range uint64(100) {
			if key := string(s.Present(&k, n+i)); present[key] {
				t.Errorf("%s: key %q of an insert is there already", kind, key)
			}
		}
		for i, key := range sorted {
			if off := math.Abs(float64(s.After([]byte(key))) - float64(n-1-i)); off > 200 {
				t.Errorf("%s: about %d keys after %q, want %d", kind, s.After([]byte(key)), key, n-1-i)
				break
			}
		}
	}
}

func TestSpace_Ordered(t *testing.T) {
	for _, kind := range Kinds {
		s := NewSpace(kind, 1000)
		var k Key
		var last []byte
		for i := range uint64(1000) {
			key := s.Ordered(&k, i)
			if bytes.Compare(key, last) <= 0 {
				t.Fatalf("%s: key %d is %q, after %q", kind, i, key, last)
			}
			last = bytes.Clone(key)
		}
	}
}

func TestKey_Hex(t *testing.T) {
	var k Key
	if got := string(k.hex(0x0123456789abcdef)); got != "0123456789abcdef" {
		t.Errorf("hex: %q", got)
	}
	if got := string(k.user(123456789012)); got != "user123456789012" {
		t.Errorf("user: %q", got)
	}
}

func TestSpace_Scattered(t *testing.T) {
	s := NewSpace("random", 1001)
	seen := map[uint64]bool{}
	for i := range uint64(1001) {
		seen[s.Scattered(i)] = true
	}
	if len(seen) != 1001 {
		t.Errorf("%d numbers, want 1001", len(seen))
	}
}

func TestValues(t *testing.T) {
	v := NewValues(100, 1)
	a, b := []byte("0123456789abcdef"), []byte("0123456789abcdeg")
	if Tag(a) == Tag(b) {
		t.Error("two keys have the same tag")
	}
	first := bytes.Clone(v.Next(a))
	second := v.Next(a)
	if TagOf(first) != Tag(a) || TagOf(second) != Tag(a) || bytes.Equal(first, second) {
		t.Errorf("values %x and %x of one key", first, second)
	}
	if zeros := bytes.Count(first, []byte{0}); len(first) != 100 || zeros < 48 || zeros > 60 {
		t.Errorf("%d zeros in %x, want about 52", zeros, first)
	}
	if TagOf(nil) != 0 {
		t.Error("a value that is too short has a tag")
	}
}

func TestZipf(t *testing.T) {
	const n, draws = 100_000, 1_000_000
	z, r := NewZipf(n), NewRandom(1)
	counts := make([]int, n)
	for range draws {
		counts[z.Draw(r)]++
	}
	exact := 0.0
	for k := 1; k <= n; k++ {
		exact += math.Pow(float64(k), -theta)
	}
	if math.Abs(z.zeta/exact-1) > 1e-6 {
		t.Errorf("zeta %v, want %v", z.zeta, exact)
	}
	// The first two are exact; the method approximates the others.
	for k, tolerance := range map[int]float64{0: 0.03, 1: 0.05, 9: 0.25, 99: 0.25} {
		want := draws * math.Pow(float64(k+1), -theta) / exact
		if got := float64(counts[k]); math.Abs(got/want-1) > tolerance {
			t.Errorf("%d drawn %v times, want about %.0f", k, got, want)
		}
	}
	upper := 0
	for _, c := range counts[n/2:] {
		upper += c
	}
	if share := float64(upper) / draws; share < 0.03 || share > 0.1 {
		t.Errorf("%.3f of the draws fall into the upper half, want 0.06", share)
	}
}

func TestRandom_Below(t *testing.T) {
	r := NewRandom(2)
	counts := make([]int, 10)
	for range 100_000 {
		counts[r.Below(10)]++
	}
	for i, c := range counts {
		if c < 9_500 || c > 10_500 {
			t.Errorf("%d drawn %d times of 100000", i, c)
		}
	}
}

// Numbers below a large one are drawn from all of them, and not from the first 16 million.
func TestRandom_BelowLargeNumbers(t *testing.T) {
	for _, n := range []uint64{10, 1 << 24, 400_000_000, 1 << 50} {
		r, sum := NewRandom(1), 0.0
		for range 10_000 {
			x := r.Below(n)
			if x >= n {
				t.Fatalf("%d is not below %d", x, n)
			}
			sum += float64(x) / float64(n)
		}
		if mean := sum / 10_000; mean < 0.43 || mean > 0.51 {
			t.Errorf("numbers below %d are %.3f of it on average, want a half", n, mean)
		}
	}
}
