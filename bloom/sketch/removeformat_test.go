package sketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/fuzzing"
)

// A kept is a filter or set that is changed in memory and can be serialized.
type kept interface {
	AppendBinary(dst []byte) ([]byte, error)
	MarshalBinary() ([]byte, error)
	UnmarshalBinary(b []byte) error
	Count() uint64
}

func bytesOf(k kept) []byte {
	b, err := k.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return b
}

// keptOf returns an empty filter of a golden's type.
func keptOf(name string) kept {
	switch {
	case strings.HasPrefix(name, "counting"):
		return new(Counting)
	case strings.HasPrefix(name, "cuckoo"):
		return new(Cuckoo)
	}
	return new(Bitset)
}

func countingOf(o CountingOptions, keys int) *Counting {
	f := mustCounting(o)
	for _, h := range keyHashes(o.Hasher, keys) {
		f.AddHash(h)
	}
	return f
}

func cuckooOf(o CuckooOptions, keys int) *Cuckoo {
	f := mustCuckoo(o)
	for _, h := range keyHashes(o.Hasher, keys) {
		if err := f.AddHash(h); err != nil {
			panic(err)
		}
	}
	return f
}

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + "-v1.filter")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Values that no writer makes are refused, also with a checksum that fits.
func TestKept_ImpossibleFields(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		name, golden string
		change       func(b, trailer []byte)
		want         error
	}{
		{"five counters a key", "counting-example", func(_, t []byte) { t[3] = 5 }, bloom.ErrDamaged},
		{"eight counters a key", "counting-example", func(_, t []byte) { t[3] = 8 }, bloom.ErrDamaged},
		{"reserved byte 4", "counting-example", func(_, t []byte) { t[4] = 1 }, bloom.ErrDamaged},
		{"reserved byte 19", "counting-example", func(_, t []byte) { t[19] = 1 }, bloom.ErrDamaged},
		{"other keys", "counting-example", func(_, t []byte) { t[8]++ }, bloom.ErrDamaged},
		{"many keys", "counting-example", func(b, t []byte) { le.PutUint64(b[64:], 1<<32+2) }, bloom.ErrDamaged},
		{"a line more", "counting-example", func(_, t []byte) { t[12]++ }, bloom.ErrDamaged},
		{"most lines", "counting-example", func(_, t []byte) { le.PutUint32(t[12:], math.MaxUint32) }, bloom.ErrDamaged},
		{"no bits", "cuckoo-example", func(_, t []byte) { t[3] = 0 }, bloom.ErrDamaged},
		{"13 bits", "cuckoo-example", func(_, t []byte) { t[3] = 13 }, bloom.ErrDamaged},
		{"other bits", "cuckoo-example", func(_, t []byte) { t[3] = 8 }, bloom.ErrDamaged},
		{"a stash", "cuckoo-example", func(_, t []byte) { t[4] = 1 }, bloom.ErrDamaged},
		{"a large stash", "cuckoo-example", func(_, t []byte) { t[4] = 255 }, bloom.ErrDamaged},
		{"reserved byte 5", "cuckoo-example", func(_, t []byte) { t[5] = 1 }, bloom.ErrDamaged},
		{"reserved byte 16", "cuckoo-example", func(_, t []byte) { t[16] = 1 }, bloom.ErrDamaged},
		{"other keys", "cuckoo-example", func(_, t []byte) { t[8]++ }, bloom.ErrDamaged},
		{"no buckets", "cuckoo-example", func(_, t []byte) { le.PutUint32(t[12:], 0) }, bloom.ErrDamaged},
		{"most buckets", "cuckoo-example", func(_, t []byte) { le.PutUint32(t[12:], math.MaxUint32) }, bloom.ErrDamaged},
		{"stashed: no bucket", "cuckoo-stash", func(b, _ []byte) { le.PutUint32(b[len(b)-40:], 27) }, bloom.ErrDamaged},
		{"stashed: no fingerprint", "cuckoo-stash", func(b, _ []byte) { le.PutUint32(b[len(b)-36:], 0) }, bloom.ErrDamaged},
		{"stashed: a wide fingerprint", "cuckoo-stash", func(b, _ []byte) { le.PutUint32(b[len(b)-36:], 1<<12) }, bloom.ErrDamaged},
		{"other members", "bitset-example", func(_, t []byte) { t[8]++ }, bloom.ErrDamaged},
		{"a word more", "bitset-example", func(_, t []byte) { t[12]++ }, bloom.ErrDamaged},
		{"most words", "bitset-example", func(_, t []byte) { le.PutUint64(t[12:], math.MaxUint64) }, bloom.ErrDamaged},
		{"words that wrap in 64 bits", "bitset-example", func(_, t []byte) { t[19] = 0x20 }, bloom.ErrDamaged},
		{"the last word 0", "bitset-example", func(b, t []byte) { clear(b[8:16]); t[8] = 2 }, bloom.ErrDamaged},
		{"reserved byte 3", "bitset-example", func(_, t []byte) { t[3] = 1 }, bloom.ErrDamaged},
		{"reserved byte 7", "bitset-example", func(_, t []byte) { t[7] = 1 }, bloom.ErrDamaged},
		{"a hash", "bitset-example", func(_, t []byte) { t[2] = byte(bloom.HashXXH3) }, bloom.ErrUnknown},
	} {
		b := bytes.Clone(goldenFile(t, c.golden))
		c.change(b, b[len(b)-form.TrailerLen:])
		filtertest.CheckRefused(t, func(b []byte) (*kept, error) {
			f := keptOf(c.golden)
			if err := f.UnmarshalBinary(b); err != nil {
				return nil, err
			}
			return &f, nil
		}, c.golden+": "+c.name, filtertest.Reseal(b), c.want)
	}
}

// A filter that is read takes as much memory as its bytes, and a little more.
var keptLimit = fuzzing.Limit{Bytes: 4 << 10, PerByte: 2}

// FuzzUnmarshalKept gives bytes to all three decoders, as they are and with a
// checksum that fits. A filter that can be read writes the same bytes, and takes any
// question, addition and removal.
func FuzzUnmarshalKept(f *testing.F) {
	goldens(f, func(b []byte) { f.Add(b, uint64(1)) })
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		for _, name := range []string{"counting", "cuckoo", "bitset"} {
			probeKept(t, keptOf(name), b, h)
			probeKept(t, keptOf(name), filtertest.Reseal(b), h)
		}
	})
}

func probeKept(t *testing.T, f kept, b []byte, h uint64) {
	var err error
	keptLimit.Check(t, len(b), func() { err = f.UnmarshalBinary(b) })
	if err != nil {
		if errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) || f.Count() != 0 {
			t.Fatalf("UnmarshalBinary = %v, %d keys", err, f.Count())
		}
		return
	}
	if again := bytesOf(f); !bytes.Equal(again, b) {
		t.Fatalf("%x is written again as %x", b, again)
	}
	switch f := f.(type) {
	case *Bitset:
		i, before := h%4096, f.Count()
		was, err := f.CheckAndSet(i)
		if err != nil || !f.Has(i) || f.Clear(i) != true || f.Count()+1 != before && was || f.Count() != before && !was {
			t.Fatalf("%d was there: %v, %v; %d members of %d", i, was, err, f.Count(), before)
		}
		for i := range f.All() {
			if !f.Has(i) {
				t.Fatalf("All has %d, Has does not", i)
			}
		}
	case *Cuckoo:
		probeRemover(t, f, h)
	case *Counting:
		probeRemover(t, countingRemover{f}, h)
	}
}

// probeRemover adds and removes in a filter that may have any bytes.
func probeRemover(t *testing.T, f remover, h uint64) {
	for i := range uint64(20) {
		h := h + i*0x9e3779b97f4a7c15
		had, before := f.MayContainHash(h), f.Count()
		if before < math.MaxUint64 && f.AddHash(h) == nil && (!f.MayContainHash(h) || f.Count() != before+1 || !f.RemoveHash(h) || f.Count() != before) {
			t.Fatalf("%016x was added and is denied; %d keys of %d", h, f.Count(), before)
		}
		if had && !f.MayContainHash(h) {
			t.Fatalf("%016x was there, came and went, and is not there", h)
		}
	}
	if p := f.FPR(); !(p >= 0 && p <= 1) {
		t.Fatalf("FPR() = %v", p)
	}
}
