package keys

import (
	"bytes"
	"testing"
)

func TestPermutation_IsABijection(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 7, 8, 9, 100, 1023, 1024, 1025, 70_000} {
		p := NewPermutation(n)
		met := make([]bool, n)
		for i := range n {
			at := p.At(i)
			if at >= n {
				t.Fatalf("permutation of %d: at(%d) = %d", n, i, at)
			}
			if met[at] {
				t.Fatalf("permutation of %d: at(%d) = %d, which was met before", n, i, at)
			}
			met[at] = true
		}
	}
}

func TestPermutation_Scatters(t *testing.T) {
	const n = 1 << 16
	p := NewPermutation(n)
	near := 0
	for i := range uint64(n - 1) {
		if d := int64(p.At(i+1)) - int64(p.At(i)); -n/16 < d && d < n/16 {
			near++
		}
	}
	// Of random neighbours, an eighth is nearer than a sixteenth of the range.
	if share := float64(near) / n; share < 0.08 || share > 0.18 {
		t.Errorf("%.3f of neighbours are near each other, want about 0.12", share)
	}
}

func TestKeySpace_AbsentKeysAreNeverPresentAndLieBetween(t *testing.T) {
	const n = 20_000
	for _, kind := range []string{"random", "structured"} {
		s := NewSpace(kind, n)
		present := make(map[string]bool, n)
		var least, greatest []byte
		for i := range uint64(n) {
			k := s.Present(nil, i)
			if len(k) != Size {
				t.Fatalf("%s: key %q has %d bytes, want %d", kind, k, len(k), Size)
			}
			if present[string(k)] {
				t.Fatalf("%s: present(%d) = %q, which was met before", kind, i, k)
			}
			present[string(k)] = true
			if least == nil || bytes.Compare(k, least) < 0 {
				least = k
			}
			if bytes.Compare(k, greatest) > 0 {
				greatest = k
			}
		}
		outside := 0
		absent := make(map[string]bool, n)
		for i := range uint64(n - 1) {
			k := s.Absent(nil, i)
			if len(k) != Size || present[string(k)] || absent[string(k)] {
				t.Fatalf("%s: absent(%d) = %q: of another size, present, or met before", kind, i, k)
			}
			absent[string(k)] = true
			if bytes.Compare(k, least) < 0 || bytes.Compare(k, greatest) > 0 {
				outside++
			}
		}
		// Random keys may lie next to the range: about one in n on either side.
		if kind == "structured" && outside > 0 || outside > 10 {
			t.Errorf("%s: %d of %d absent keys lie outside the range", kind, outside, n-1)
		}
	}
}

func TestKeySpace_Form(t *testing.T) {
	s := NewSpace("structured", 5)
	got := make(map[string]bool)
	for i := range uint64(5) {
		got[string(s.Present(nil, i))] = true
	}
	for i := range uint64(4) {
		got[string(s.Absent(nil, i))] = true
	}
	for _, want := range []string{"user000000000000", "user000000000001", "user000000000007", "user000000000008"} {
		if !got[want] {
			t.Errorf("%q is neither present nor absent: %v", want, got)
		}
	}
	if len(got) != 9 {
		t.Errorf("%d keys, want 9", len(got))
	}
}
