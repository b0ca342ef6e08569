package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"github.com/shaledb/shale/internal/fuzzing"
	"math"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A filter keeps its bytes, and a first unit has a copy of its own.
var (
	probeLimit = fuzzing.Limit{Bytes: 1 << 10}
	unitLimit  = fuzzing.Limit{Bytes: 1 << 10, PerByte: 2}
)

// FuzzOpenStatic gives bytes to the decoder, as they are and with a checksum that fits, so
// that the fuzzer gets past it. A filter that opens must answer any question without a
// panic, and its trailer must be the one that would be written.
func FuzzOpenStatic(f *testing.F) {
	files, err := filepath.Glob("testdata/*.filter")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden filters: %v", err)
	}
	for _, name := range files {
		b := filtertest.ReadGolden(f, filepath.Base(name), nil)
		f.Add(b, uint64(1))
		f.Add(b[len(b)-form.TrailerLen:], uint64(math.MaxUint64))
	}
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		probeStatic(t, b, h)
		probeStatic(t, filtertest.Reseal(b), h)
	})
}

// probeStatic opens b and uses the filter, if there is one.
func probeStatic(t *testing.T, b []byte, h uint64) {
	kept := bytes.Clone(b)
	var s, one *Static
	var err error
	probeLimit.Check(t, len(b), func() {
		if s, err = OpenStatic(b); err == nil {
			s.MayContainHash(h)
			s.FPR()
		}
	})
	if err != nil {
		if s != nil || errors.Is(err, ErrDamaged) == errors.Is(err, ErrUnknown) {
			t.Fatalf("OpenStatic = %v, %v", s, err)
		}
		return
	}
	if again, err := s.AppendBinary(nil); err != nil || !bytes.Equal(again, b) {
		t.Fatalf("written again it is another: %v", err)
	}
	unitLimit.Check(t, len(b), func() { one = s.FirstUnit() })
	for _, h := range []uint64{h, ^h, 0, math.MaxUint64, s.Hasher().Hash(b)} {
		if s.MayContainHash(h) && !one.MayContainHash(h) {
			t.Fatalf("the first unit denies %016x, the filter does not", h)
		}
		if s.fuse != nil {
			if _, want := specFuse(b, h); s.MayContainHash(h) != want {
				t.Fatalf("MayContain(%016x) = %v, want %v", h, !want, want)
			}
		}
	}
	if p := s.FPR(); !(p >= 0 && p <= 1) || !(s.BitsPerKey() > 0) {
		t.Fatalf("FPR() = %v, BitsPerKey() = %v", p, s.BitsPerKey())
	}
	if s.SizeBytes() != len(b) || one.SizeBytes() != s.FirstUnitBytes() || one.SizeBytes() > len(b) || one.Units() != 1 {
		t.Fatalf("SizeBytes() = %d, %d of the first unit, want %d", s.SizeBytes(), one.SizeBytes(), len(b))
	}
	if again, err := NewHasher(s.Hasher().ID(), s.Hasher().Seed()); err != nil || again != s.Hasher() {
		t.Fatalf("NewHasher(%d, %d) = %v, %v", s.Hasher().ID(), s.Hasher().Seed(), again, err)
	}
	if s.fuse != nil {
		again := bytes.Clone(b)
		tr := fuseTrailer{head: s.fuse.head, r: s.fuse.r, segments: s.fuse.span / s.fuse.length, length: s.fuse.length}
		if tr.put(again); !bytes.Equal(again, kept) {
			t.Fatalf("trailer %x, written again %x", kept[len(kept)-form.TrailerLen:], again[len(again)-form.TrailerLen:])
		}
	}
	if !bytes.Equal(b, kept) {
		t.Fatal("asking changed the bytes")
	}
}

// FuzzAppendStatic builds filters of any hashes, many of which may be equal or
// made to meet. One that is built holds them all.
func FuzzAppendStatic(f *testing.F) {
	for _, n := range []int{0, 1, 2, 3, 10, 100} {
		f.Add(fill(8*n), byte(n), 10.0)
		f.Add(make([]byte, 8*n), byte(n), 30.0)
	}
	f.Fuzz(func(t *testing.T, b []byte, kind byte, bits float64) {
		var hs []uint64
		for ; len(b) >= 8; b = b[8:] {
			hs = append(hs, binary.LittleEndian.Uint64(b))
		}
		made, err := AppendStatic(nil, hs, StaticOptions{Kind: 1 + Kind(kind)%2, BitsPerKey: bits})
		if err != nil {
			return // a fuse filter, by chance
		}
		s := mustOpenStatic(made)
		for _, h := range hs {
			if !s.MayContainHash(h) {
				t.Fatalf("%v of %x denies %016x", s.Kind(), hs, h)
			}
		}
		if s.Count() != uint64(len(hs)) {
			t.Fatalf("Count() = %d, want %d", s.Count(), len(hs))
		}
	})
}
