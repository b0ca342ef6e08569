package bloom

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/fuzzing"
)

// FuzzOpenBlocked gives bytes to the decoder, as they are and with a checksum that fits, so
// that the fuzzer gets past it. A filter that opens must answer any question without a
// panic, and its trailer must be the one that would be written.
func FuzzOpenBlocked(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		probe(t, b, h)
		probe(t, filtertest.Reseal(b), h)
	})
}

// addGoldens gives the fuzzer the golden filters, whole and without their body.
func addGoldens(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.filter")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden filters: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(1))
		f.Add(b[len(b)-form.TrailerLen:], uint64(math.MaxUint64))
	}
	f.Add([]byte{}, uint64(0))
}

// A filter keeps its bytes, and a first unit has a copy of its own.
var (
	probeLimit = fuzzing.Limit{Bytes: 1 << 10}
	unitLimit  = fuzzing.Limit{Bytes: 1 << 10, PerByte: 2}
)

// probe opens b and uses the filter, if there is one.
func probe(t *testing.T, b []byte, h uint64) {
	kept := append([]byte(nil), b...)
	var f, g *Blocked
	var err error
	probeLimit.Check(t, len(b), func() {
		if f, err = OpenBlocked(b); err == nil {
			f.MayContainHash(h)
			f.FPR()
		}
	})
	if err != nil {
		if f != nil || errors.Is(err, ErrDamaged) == errors.Is(err, ErrUnknown) {
			t.Fatalf("OpenBlocked = %v, %v", f, err)
		}
		return
	}
	unitLimit.Check(t, len(b), func() { g = f.FirstUnit() })
	for _, h := range []uint64{h, ^h, 0, math.MaxUint64, Hash(b)} {
		if f.MayContainHash(h) && !g.MayContainHash(h) {
			t.Fatalf("the first unit denies %016x, the filter does not", h)
		}
	}
	if p := f.FPR(); !(p >= 0 && p <= 1) || !(f.BitsPerKey() > 0) {
		t.Fatalf("FPR() = %v, BitsPerKey() = %v", p, f.BitsPerKey())
	}
	if f.SizeBytes() != len(b) || g.SizeBytes() != f.FirstUnitBytes() || g.SizeBytes() > len(b) {
		t.Fatalf("SizeBytes() = %d, %d of the first unit, want %d", f.SizeBytes(), g.SizeBytes(), len(b))
	}
	again := append([]byte(nil), b...)
	tr := trailer{
		head: head{keys: f.keys}, units: f.Units(),
		k:     [2]uint32{f.units.First.K, f.units.Second.K},
		lines: [2]uint32{uint32(f.units.First.Lines), uint32(f.units.Second.Lines)},
	}
	if tr.put(again); !bytes.Equal(again, kept) {
		t.Fatalf("trailer %x, written again %x", kept[len(kept)-form.TrailerLen:], again[len(again)-form.TrailerLen:])
	}
	if !bytes.Equal(b, kept) {
		t.Fatal("asking changed the bytes")
	}
}
