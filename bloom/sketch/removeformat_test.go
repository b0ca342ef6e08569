package sketch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"regexp"
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

// keptGoldens are filters whose bytes are stored: of no key, of the two keys of the
// worked examples, and of others.
var keptGoldens = []struct {
	name string
	make func() kept
}{
	{"counting-none", func() kept { return countingFor(0, 0.01) }},
	{"counting-example", func() kept { return countingOf(CountingOptions{Keys: 2}, 2) }},
	{"counting-narrow", func() kept { return countingOf(CountingOptions{Keys: 100, BitsPerKey: 16}, 100) }},
	{"counting-seven", func() kept { return countingOf(CountingOptions{Keys: 100, FPR: 0.0001}, 100) }},
	{"counting-siphash", func() kept {
		return countingOf(CountingOptions{Keys: 100, Hasher: hasherOf(bloom.HashSipHash, 0x0123456789abcdef)}, 100)
	}},
	{"cuckoo-none", func() kept { return cuckooFor(0) }},
	{"cuckoo-example", func() kept { return cuckooOf(CuckooOptions{Keys: 8}, 2) }},
	{"cuckoo-eight", func() kept { return cuckooOf(CuckooOptions{Keys: 100, FingerprintBits: 8}, 100) }},
	{"cuckoo-sixteen", func() kept { return cuckooOf(CuckooOptions{Keys: 100, FingerprintBits: 16}, 100) }},
	{"cuckoo-stash", func() kept { return cuckooOf(CuckooOptions{Keys: 100}, 115) }},
	{"cuckoo-xxh3", func() kept { return cuckooOf(CuckooOptions{Keys: 100, Hasher: hasherOf(bloom.HashXXH3, 7)}, 100) }},
	{"bitset-none", func() kept { return bitsetBelow(0) }},
	{"bitset-example", func() kept { return bitsetOf(0, 1, 3, 64, 100) }},
	{"bitset-wide", func() kept { return bitsetOf(0, 0, 63, 64, 127, 8191) }},
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

// Bytes of earlier programs can be read, and this one writes the same bytes, also behind
// other bytes and after reading.
func TestGolden_Kept(t *testing.T) {
	for _, g := range keptGoldens {
		made := bytesOf(g.make())
		stored := filtertest.ReadGolden(t, g.name+"-v1.filter", func() []byte { return made })
		if !bytes.Equal(made, stored) {
			t.Errorf("%s: the bytes changed", g.name)
		}
		f := keptOf(g.name)
		if err := f.UnmarshalBinary(stored); err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		behind, err := f.AppendBinary([]byte("in front"))
		if err != nil || string(behind) != "in front"+string(stored) {
			t.Errorf("%s: read and written again, other bytes; %v", g.name, err)
		}
		if want := g.make(); f.Count() != want.Count() {
			t.Errorf("%s: %d keys, want %d", g.name, f.Count(), want.Count())
		}
		if f, ok := f.(interface{ Hasher() bloom.Hasher }); ok && f.Hasher() != g.make().(interface{ Hasher() bloom.Hasher }).Hasher() {
			t.Errorf("%s: hash %v", g.name, f.Hasher())
		}
	}
	stash := new(Cuckoo)
	if err := stash.UnmarshalBinary(goldenFile(t, "cuckoo-stash")); err != nil || stash.waiting == 0 {
		t.Errorf("the golden file with a stash has %d in it; %v", stash.waiting, err)
	}
}

// Bytes that were changed or cut, or are of another kind, are refused, and nothing changes.
func TestKept_Damaged(t *testing.T) {
	for _, g := range keptGoldens {
		good := bytesOf(g.make())
		open := func(b []byte) (*kept, error) {
			f := keptOf(g.name)
			was := bytesOfOld(f)
			err := f.UnmarshalBinary(b)
			if err == nil {
				return &f, nil
			}
			if !bytes.Equal(bytesOfOld(f), was) {
				t.Errorf("%s: refused bytes change it", g.name)
			}
			return nil, err
		}
		for i := range good {
			if filtertest.Short() && i < len(good)-form.TrailerLen && i%16 > 0 {
				continue
			}
			b := bytes.Clone(good)
			b[i] ^= 0x40
			filtertest.CheckRefused(t, open, g.name+", a flipped bit", b, nil)
			filtertest.CheckRefused(t, open, g.name+", cut at the end", good[:i], nil)
			if i > 0 {
				filtertest.CheckRefused(t, open, g.name+", a part repeated", append(good[:i:i], good...), nil)
			}
		}
		filtertest.CheckRefused(t, open, g.name+", a byte more in front", filtertest.Reseal(append([]byte{0}, good...)), bloom.ErrDamaged)
		for _, other := range keptGoldens {
			if other.name[:6] != g.name[:6] {
				filtertest.CheckRefused(t, open, g.name+" of "+other.name, bytesOf(other.make()), bloom.ErrUnknown)
			}
		}
		later := bytes.Clone(good)
		later[len(later)-form.TrailerLen+1]++
		filtertest.CheckRefused(t, open, g.name+" of version 2", filtertest.Reseal(later), bloom.ErrUnknown)
		filtertest.CheckRefused(t, open, g.name+" of a blocked filter", bloom.AppendBlocked(nil, nil, 10), bloom.ErrUnknown)
		filtertest.CheckRefused(t, bloom.OpenStatic, "OpenStatic of "+g.name, good, bloom.ErrUnknown)
	}
}

// bytesOfOld is bytesOf, or nil of a zero filter.
func bytesOfOld(k kept) []byte {
	if k.Count() == 0 {
		return nil
	}
	return bytesOf(k)
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
		{"unknown hash", "counting-example", func(_, t []byte) { t[2] = 9 }, bloom.ErrUnknown},
		{"murmur3 with a seed", "counting-example", func(_, t []byte) { t[20] = 1 }, bloom.ErrUnknown},
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
		{"a seed", "bitset-example", func(_, t []byte) { t[20] = 1 }, bloom.ErrUnknown},
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

// The worked examples of the document are the golden files.
func TestFormat_KeptExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^((?:[0-9a-f]{2} {1,2})+) `)
	for _, name := range []string{"Kind 4, counting", "Kind 5, cuckoo", "Kind 7, bitset"} {
		_, part, _ := strings.Cut(string(text), "\n#### "+name)
		part, _, _ = strings.Cut(part, "\n###")
		var got []byte
		for _, m := range row.FindAllStringSubmatch(part, -1) {
			b, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
		}
		if want := goldenFile(t, name[8:]+"-example"); !bytes.Equal(got, want) {
			t.Errorf("%s: the worked example is\n%x, want\n%x", name, got, want)
		}
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
