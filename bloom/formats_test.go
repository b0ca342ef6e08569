package bloom_test

import (
	"bytes"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/internal/fuzzing"
)

// A format is a way to read a serialized filter.
type format struct {
	open func(b []byte) (binaryAppender, error) // keeps b
	zero func() encoding.BinaryUnmarshaler      // to be read into
}

type binaryAppender interface {
	encoding.BinaryAppender
	encoding.BinaryMarshaler
}

func formatOf[T any, F interface {
	*T
	binaryAppender
	encoding.BinaryUnmarshaler
}](open func(b []byte) (F, error)) format {
	return format{
		func(b []byte) (binaryAppender, error) {
			f, err := open(b)
			if err != nil {
				return nil, err
			}
			return f, nil
		},
		func() encoding.BinaryUnmarshaler { return F(new(T)) },
	}
}

var (
	blockedFormat  = formatOf(bloom.OpenBlocked)
	fuseFormat     = formatOf(bloom.OpenFuse)
	staticFormat   = formatOf(bloom.OpenStatic)
	filterFormat   = formatOf(bloom.OpenFilter)
	atomicFormat   = formatOf(bloom.OpenAtomicBlocked)
	countingFormat = formatOf(sketch.OpenCounting)
	cuckooFormat   = formatOf(sketch.OpenCuckoo)
	bitsetFormat   = formatOf(sketch.OpenBitset)
	scalableFormat = formatOf(sketch.OpenScalable)

	// A filter with a hash function of the caller's own is read by one that has it.
	ownFormat = format{zero: func() encoding.BinaryUnmarshaler { return get(bloom.NewFilter(ownOptions)) }}
)

// ownOptions are those of a filter with a hash function of the caller's own.
var ownOptions = bloom.FilterOptions{Keys: 1000, HashID: 200, Hash: func(key []byte) (uint64, uint64) {
	h1, h2 := bloom.Murmur3(key)
	return h2, h1
}}

// A golden is a serialized filter whose bytes are stored, of the first of the numbered keys.
type golden struct {
	format
	file string
	keys uint64
	made []byte
}

const oldSecret = 0x0123456789abcdef

func hasher(id bloom.HashID, seed uint64) bloom.Hasher { return get(bloom.NewHasher(id, seed)) }

// goldens returns all golden filters: of no key, of the keys of the worked examples, and of
// enough for more lines, layers or words.
func goldens() (all []golden) {
	add := func(f format, file string, keys int, made []byte) {
		all = append(all, golden{f, file + "-v1.filter", uint64(keys), made})
	}
	made := func(f encoding.BinaryMarshaler, err error) []byte {
		must(err)
		return get(f.MarshalBinary())
	}
	hashes := func(h bloom.Hasher, n int) []uint64 {
		hs := make([]uint64, n)
		for i := range hs {
			hs[i] = h.Hash(filtertest.Numbered(i))
		}
		return hs
	}
	sip := hasher(bloom.HashSipHash, oldSecret)
	for _, g := range []struct {
		file string
		keys int
		bits float64
	}{{"none", 0, 10}, {"example", 2, 10}, {"narrow", 100, 4}, {"ten", 100, 10}, {"nine-probes", 100, 13.9}, {"two-units", 100, 14}, {"flush", 100, 24}, {"widest", 100, 26}} {
		b := bloom.AppendBlocked(nil, hashes(bloom.Hasher{}, g.keys), g.bits)
		add(blockedFormat, g.file, g.keys, b)
		add(staticFormat, g.file, g.keys, b)
	}
	for _, g := range []struct {
		file string
		keys int
		o    bloom.StaticOptions
	}{
		{"xxh3", 100, bloom.StaticOptions{BitsPerKey: 10, Hasher: hasher(bloom.HashXXH3, 0)}},
		{"xxh3-seed", 100, bloom.StaticOptions{BitsPerKey: 20, Hasher: hasher(bloom.HashXXH3, oldSecret)}},
		{"siphash", 100, bloom.StaticOptions{BitsPerKey: 10, Hasher: sip}},
		{"fuse-none", 0, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 10}},
		{"fuse-example", 2, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 96}},  // fingerprints of 10 bits
		{"fuse-narrow", 100, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 4}},  // of 4
		{"fuse-ten", 100, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 20}},    // of 10
		{"fuse-widest", 100, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 40}}, // of 16
		{"fuse-siphash", 100, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 16, Hasher: sip}},
	} {
		b := get(bloom.AppendStatic(nil, hashes(g.o.Hasher, g.keys), g.o))
		add(staticFormat, g.file, g.keys, b)
		if g.o.Kind == bloom.KindFuse && g.o.Hasher == (bloom.Hasher{}) {
			add(fuseFormat, g.file, g.keys, b)
		}
	}
	for _, g := range []struct {
		file string
		keys int
		o    bloom.AtomicBlockedOptions
	}{
		{"none", 0, bloom.AtomicBlockedOptions{}}, {"example", 2, bloom.AtomicBlockedOptions{Keys: 2}}, {"hundred", 100, bloom.AtomicBlockedOptions{Keys: 100}},
		{"siphash", 100, bloom.AtomicBlockedOptions{Keys: 100, BitsPerKey: 16, Hasher: sip}},
	} {
		add(atomicFormat, "atomic-"+g.file, g.keys, made(numbered(get(bloom.NewAtomicBlocked(g.o)), g.keys)))
	}
	ofFilter := func(f format, file string, keys int, o bloom.FilterOptions) {
		add(f, "filter-"+file, keys, made(numbered(get(bloom.NewFilter(o)), keys)))
	}
	ofFilter(filterFormat, "none", 0, bloom.FilterOptions{Keys: 1, FPR: 0.01})
	ofFilter(filterFormat, "example", 2, bloom.FilterOptions{Bits: 128, Probes: 6})
	ofFilter(filterFormat, "hundred", 100, bloom.FilterOptions{Keys: 100})
	ofFilter(filterFormat, "siphash", 100, bloom.FilterOptions{Keys: 100, FPR: 1e-6, Hasher: sip})
	ofFilter(ownFormat, "own", 100, ownOptions)

	ofScalable := func(file string, keys int, o sketch.ScalableOptions) {
		add(scalableFormat, "../sketch/testdata/scalable-"+file, keys, made(numbered(get(sketch.NewScalable(o)), keys)))
	}
	ofScalable("example", 3, sketch.ScalableOptions{Capacity: 2, FPR: 0.1})
	ofScalable("none", 0, sketch.ScalableOptions{Capacity: 10, FPR: 0.01, NonScaling: true})
	ofScalable("siphash", 100, sketch.ScalableOptions{Capacity: 10, FPR: 0.01, Hasher: sip})
	ofScalable("constant", 100, sketch.ScalableOptions{Capacity: 40, FPR: 0.001, Expansion: 1})

	ofCounting := func(file string, keys int, o sketch.CountingOptions) {
		add(countingFormat, "../sketch/testdata/counting-"+file, keys, made(numbered(get(sketch.NewCounting(o)), keys)))
	}
	ofCounting("none", 0, sketch.CountingOptions{FPR: 0.01})
	ofCounting("example", 2, sketch.CountingOptions{Keys: 2})
	ofCounting("narrow", 100, sketch.CountingOptions{Keys: 100, BitsPerKey: 16})
	ofCounting("seven", 100, sketch.CountingOptions{Keys: 100, FPR: 0.0001})
	ofCounting("siphash", 100, sketch.CountingOptions{Keys: 100, Hasher: sip})

	ofCuckoo := func(file string, keys int, o sketch.CuckooOptions) {
		add(cuckooFormat, "../sketch/testdata/cuckoo-"+file, keys, made(numbered(get(sketch.NewCuckoo(o)), keys)))
	}
	ofCuckoo("none", 0, sketch.CuckooOptions{})
	ofCuckoo("example", 2, sketch.CuckooOptions{Keys: 8})
	ofCuckoo("eight", 100, sketch.CuckooOptions{Keys: 100, FingerprintBits: 8})
	ofCuckoo("sixteen", 100, sketch.CuckooOptions{Keys: 100, FingerprintBits: 16})
	ofCuckoo("stash", 115, sketch.CuckooOptions{Keys: 100})
	ofCuckoo("xxh3", 100, sketch.CuckooOptions{Keys: 100, Hasher: hasher(bloom.HashXXH3, 7)})

	for file, members := range map[string][]uint64{"none": nil, "example": {1, 3, 64, 100}, "wide": {0, 63, 64, 127, 8191}} {
		var s sketch.Bitset
		for _, i := range members {
			must(s.Set(i))
		}
		add(bitsetFormat, "../sketch/testdata/bitset-"+file, len(members), get(s.MarshalBinary()))
	}
	return all
}

// numbered adds the first numbered keys to f.
func numbered[F interface {
	Add(key []byte) error
	encoding.BinaryMarshaler
}](f F, keys int) (encoding.BinaryMarshaler, error) {
	for i := range keys {
		if err := f.Add(filtertest.Numbered(i)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Filters that earlier programs wrote are read and hold their keys, and this one writes the same
// bytes: when it makes the filter, and when it has read or opened it.
func TestFormats_Golden(t *testing.T) {
	for _, g := range goldens() {
		kept := filtertest.ReadGolden(t, g.file, func() []byte { return g.made })
		if !bytes.Equal(g.made, kept) {
			t.Errorf("%s: the filter's bytes changed", g.file)
		}
		read := g.zero()
		if err := read.UnmarshalBinary(kept); err != nil {
			t.Errorf("%s: %v", g.file, err)
			continue
		}
		filters := []any{read}
		if g.open != nil {
			filters = append(filters, get(g.open(bytes.Clone(kept))))
		}
		for _, f := range filters {
			if behind, err := f.(binaryAppender).AppendBinary([]byte("in front")); err != nil || string(behind) != "in front"+string(kept) {
				t.Errorf("%s: read and written again, other bytes; %v", g.file, err)
			}
			if n := f.(interface{ Count() uint64 }).Count(); n != g.keys {
				t.Errorf("%s: %d keys, want %d", g.file, n, g.keys)
			}
			if set, ok := f.(filtertest.Set); ok {
				filtertest.CheckHas(t, set, 0, int(g.keys))
			}
		}
		if strings.Contains(g.file, "stash") && form.Trailer(kept)[4] == 0 {
			t.Errorf("%s has no stash", g.file)
		}
	}
}

// Bytes that were changed, cut or made longer, or are of another kind or version, are refused,
// and what should become the filter is as before.
func TestFormats_Damaged(t *testing.T) {
	all := goldens()
	for _, g := range all {
		refused := func(what string, b []byte, want error) {
			t.Helper()
			f := g.zero()
			errs := []error{f.UnmarshalBinary(b)}
			if !reflect.DeepEqual(f, g.zero()) && g.open != nil {
				t.Errorf("%s, %s: refused bytes change a filter", g.file, what)
			}
			if g.open != nil {
				_, err := g.open(bytes.Clone(b))
				errs = append(errs, err)
			}
			for _, err := range errs {
				if errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) || want != nil && !errors.Is(err, want) {
					t.Errorf("%s, %s: %v, want %v", g.file, what, err, want)
				}
			}
		}
		trailer := len(g.made) - form.TrailerLen
		for i := range g.made {
			changes := []byte{1, 2, 4, 8, 16, 32, 64, 128, 255}
			switch {
			case strings.HasPrefix(g.file, "atomic") && i == trailer+3:
				changes = changes[1:] // 1 makes it live
			case i < trailer:
				changes = changes[i%8 : i%8+1]
			}
			for _, change := range changes {
				b := bytes.Clone(g.made)
				b[i] ^= change
				refused(fmt.Sprintf("byte %d changed", i), b, nil)
			}
			refused("cut at the end", g.made[:i], nil)
			if i > 0 {
				refused("cut at the front", g.made[i:], nil)
				refused("a part repeated", append(g.made[:i:i], g.made...), nil)
			}
		}
		for _, n := range []int{1, 8, form.LineBytes} {
			refused("more behind", append(bytes.Clone(g.made), make([]byte, n)...), nil)
			refused("more in front", filtertest.Reseal(append(make([]byte, n), g.made...)), bloom.ErrDamaged)
		}
		later := bytes.Clone(g.made)
		later[trailer+1]++
		refused("of version 2", filtertest.Reseal(later), bloom.ErrUnknown)
		for what, b := range map[string][]byte{"nil": nil, "zeros": make([]byte, 96), "ones": bytes.Repeat([]byte{0xff}, 96)} {
			refused(what, b, nil)
		}
		for _, other := range all {
			if other.made[len(other.made)-form.TrailerLen] != g.made[trailer] && reflect.TypeOf(g.zero()) != reflect.TypeFor[*bloom.Static]() {
				refused("of another kind", other.made, bloom.ErrUnknown)
			}
		}
	}
}

// The worked examples of the documents are the golden filters.
func TestFormats_WorkedExamples(t *testing.T) {
	row := regexp.MustCompile(`(?m)^(?://\t)?((?:[0-9a-f]{2} {1,2})+) `)
	const format = "../docs/FORMAT.md"
	for _, c := range []struct{ document, from, to, golden string }{
		{"doc.go", "package bloom has", "package bloom\n", "testdata/example"},
		{format, "\n#### kind 1", "\n#", "testdata/example"},
		{format, "\n#### kind 2", "\n#", "testdata/fuse-example"},
		{format, "\n#### kind 3", "\n#", "testdata/filter-example"},
		{format, "\n#### kind 4", "\n#", "sketch/testdata/counting-example"},
		{format, "\n#### kind 5", "\n#", "sketch/testdata/cuckoo-example"},
		{format, "\n#### kind 6", "\n#", "sketch/testdata/scalable-example"},
		{format, "\n#### kind 7", "\n#", "sketch/testdata/bitset-example"},
		{format, "\n#### kind 8", "\n#", "testdata/atomic-example"},
	} {
		_, part, _ := strings.Cut(strings.ToLower(string(get(os.ReadFile(c.document)))), c.from)
		part, _, _ = strings.Cut(part, c.to)
		var got []byte
		for _, m := range row.FindAllStringSubmatch(part, -1) {
			got = append(got, get(hex.DecodeString(strings.ReplaceAll(m[1], " ", "")))...)
		}
		if want := get(os.ReadFile(c.golden + "-v1.filter")); !bytes.Equal(got, want) {
			t.Errorf("%s, %s: the worked example is\n%x, want\n%x", c.document, c.from, got, want)
		}
	}
}

// A kind, a version, a hash function or a seed that no writer writes is unknown, also under a
// checksum that fits.
func TestFormats_Unknown(t *testing.T) {
	for _, g := range goldens() {
		trailer := len(g.made) - form.TrailerLen
		for what, change := range map[string]func(t []byte){
			"kind 0": func(t []byte) { t[0] = 0 }, "kind 9": func(t []byte) { t[0] = 9 },
			"version 0": func(t []byte) { t[1] = 0 }, "version 2": func(t []byte) { t[1] = 2 },
			"hash 0": func(t []byte) { t[2] = 0 }, "next hash": func(t []byte) { t[2] = byte(bloom.HashSipHash) + 1 }, "another's hash": func(t []byte) { t[2] = 201 },
			"murmur3 with a seed":       func(t []byte) { t[2], t[20] = byte(bloom.HashMurmur3), 1 },
			"murmur3 with a large seed": func(t []byte) { t[2], t[27] = byte(bloom.HashMurmur3), 255 },
		} {
			b := bytes.Clone(g.made)
			change(b[trailer:])
			if strings.HasPrefix(g.file, "atomic") && strings.Contains(what, "seed") {
				continue // found by the checksum of the head
			}
			if err := g.zero().UnmarshalBinary(filtertest.Reseal(b)); !errors.Is(err, bloom.ErrUnknown) {
				t.Errorf("%s, %s: %v", g.file, what, err)
			}
		}
	}
	kept := filtertest.ReadGolden(t, "example-v2.filter", nil)
	for _, b := range [][]byte{kept, append(kept[:5:5], kept...), filtertest.Reseal(kept)[len(kept)-form.TrailerLen:]} {
		if f, err := bloom.OpenBlocked(b); f != nil || !errors.Is(err, bloom.ErrUnknown) {
			t.Errorf("OpenBlocked(version 2) = %v, %v, want ErrUnknown", f, err)
		}
	}
}

// Fuse filters of the first builder open and hold their keys. It peeled the newest place first,
// and so found other fingerprints for the same keys.
func TestFormats_FuseOfTheFirstBuilder(t *testing.T) {
	found := 0
	for _, g := range goldens() {
		if !strings.HasPrefix(g.file, "fuse-") || g.keys == 0 {
			continue
		}
		found++
		kept := filtertest.ReadGolden(t, strings.Replace(g.file, "-v1", "-stack-v1", 1), nil)
		filtertest.CheckHas(t, get(bloom.OpenStatic(kept)), 0, int(g.keys))
		if len(g.made) != len(kept) || bytes.Equal(g.made, kept) {
			t.Errorf("%s: a filter of today has %d bytes, want %d other ones", g.file, len(g.made), len(kept))
		}
	}
	if found < 5 {
		t.Errorf("%d fuse filters", found)
	}
}

// changesOf returns changes of filters of a type that is opened in its bytes.
func changesOf(f any) map[string]func(f any) error {
	var more [][]byte
	for i := range 300 {
		more = append(more, filtertest.Numbered(1000+i))
	}
	all := map[string]func(f any) error{"Reset": func(f any) error { f.(interface{ Reset() }).Reset(); return nil }}
	switch f.(type) {
	case *bloom.Filter:
		all["Add"] = func(f any) error { return f.(*bloom.Filter).Add(more[0]) }
		all["AddHash"] = func(f any) error { f.(*bloom.Filter).AddHash(1<<60, 2<<60); return nil }
		all["AddMany"] = func(f any) error { f.(*bloom.Filter).AddMany([]uint64{1 << 60, 2 << 60}); return nil }
		all["CheckAndAdd"] = func(f any) error { f.(*bloom.Filter).CheckAndAdd(more[0]); return nil }
		all["Union"] = func(f any) error {
			c := f.(*bloom.Filter).Clone()
			must(c.AddKeys(more))
			return f.(*bloom.Filter).Union(c)
		}
		all["Intersect"] = func(f any) error { c := f.(*bloom.Filter).Clone(); c.Reset(); return f.(*bloom.Filter).Intersect(c) }
		all["Unmarshal"] = func(f any) error {
			return f.(*bloom.Filter).UnmarshalBinary(get(bloom.New(10, 0.1).MarshalBinary()))
		}
	case *sketch.Counting:
		all["Add"] = func(f any) error { return f.(*sketch.Counting).Add(more[0]) }
		all["Remove"] = func(f any) error { f.(*sketch.Counting).Remove(filtertest.Numbered(1)); return nil }
		all["Union"] = func(f any) error {
			c := f.(*sketch.Counting).Clone()
			must(c.AddKeys(more))
			return f.(*sketch.Counting).Union(c)
		}
	case *sketch.Cuckoo:
		all["Remove"] = func(f any) error { f.(*sketch.Cuckoo).Remove(filtertest.Numbered(1)); return nil }
		all["replace"] = func(f any) error {
			f.(*sketch.Cuckoo).Remove(filtertest.Numbered(1))
			return f.(*sketch.Cuckoo).Add(more[0])
		}
	case *sketch.Bitset:
		all["Set"] = func(f any) error { return f.(*sketch.Bitset).Set(77) }
		all["Set beyond"] = func(f any) error { return f.(*sketch.Bitset).Set(7777) }
		all["Clear"] = func(f any) error { f.(*sketch.Bitset).Clear(64); return nil }
		all["Compact"] = func(f any) error { f.(*sketch.Bitset).Compact(); return nil }
		all["Union"] = func(f any) error { c := f.(*sketch.Bitset).Clone(); must(c.Set(5)); return f.(*sketch.Bitset).Union(c) }
		all["Intersect"] = func(f any) error { return f.(*sketch.Bitset).Intersect(new(sketch.Bitset)) }
	case *sketch.Scalable:
		all["Add"] = func(f any) error { return f.(*sketch.Scalable).Add(more[0]) }
		all["grow"] = func(f any) error { return f.(*sketch.Scalable).AddKeys(more) }
	default:
		return nil // it does not change, or changes its bytes
	}
	return all
}

// What is opened is the same as what is read, also after each change, and never changes the
// bytes that it was opened from, wherever they begin.
func TestFormats_CopyAtTheFirstChange(t *testing.T) {
	for _, g := range goldens() {
		if g.open == nil || g.keys < 3 {
			continue
		}
		for name, change := range changesOf(g.zero()) {
			for offset := range 9 {
				b := append(make([]byte, offset, offset+len(g.made)), g.made...)[offset:]
				opened, read := get(g.open(b)), g.zero()
				must(read.UnmarshalBinary(b))
				if err := errors.Join(change(opened), change(read)); err != nil || !bytes.Equal(b, g.made) {
					t.Fatalf("%s, offset %d, %s: %v, or it changed the bytes", g.file, offset, name, err)
				}
				if !bytes.Equal(get(opened.MarshalBinary()), get(read.(encoding.BinaryMarshaler).MarshalBinary())) {
					t.Errorf("%s, offset %d: after %s it is another than one that was read", g.file, offset, name)
				}
			}
		}
	}
}

// FuzzFormats gives bytes to all decoders, as they are and with a checksum that fits. Those that
// keep the bytes agree with those that copy, need little other memory, write the same bytes
// again and give the same answers, and no change of a filter changes the bytes.
func FuzzFormats(f *testing.F) {
	formats := map[string]format{}
	for _, g := range goldens() {
		formats[fmt.Sprintf("%T %v", g.zero(), g.open == nil)] = g.format
		f.Add(g.made)
		f.Add(g.made[len(g.made)-form.TrailerLen:])
	}
	f.Add([]byte{})
	limit := fuzzing.Limit{Bytes: 8 << 10, PerByte: 2}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{bytes.Clone(b), filtertest.Reseal(b)} {
			for name, form := range formats {
				kept := bytes.Clone(b)
				read := form.zero()
				var err error
				limit.Check(t, len(b), func() { err = read.UnmarshalBinary(b) })
				filters := []any{read}
				if open := form.open; open != nil {
					var opened any
					var failed error
					limit.Check(t, len(b), func() { opened, failed = open(b) })
					live := strings.Contains(name, "Atomic") && err != nil && strings.Contains(err.Error(), "live")
					if (failed == nil) != (err == nil) && !live && !errors.Is(err, sketch.ErrRange) {
						t.Fatalf("%s: opened: %v, read: %v", name, failed, err)
					}
					filters = append(filters, opened)
				}
				if err != nil {
					if errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) && !errors.Is(err, sketch.ErrRange) {
						t.Fatalf("%s: %v", name, err)
					}
					continue
				}
				for _, f := range filters {
					if !bytes.Equal(get(f.(encoding.BinaryMarshaler).MarshalBinary()), b) {
						t.Fatalf("%s: written again it is another", name)
					}
					if rated, ok := f.(interface{ FPR() float64 }); ok && !(rated.FPR() >= 0 && rated.FPR() <= 1) {
						t.Fatalf("%s: FPR() = %v", name, rated.FPR())
					}
					if set, ok := f.(bloom.Set); ok && set.MayContain(b) != read.(bloom.Set).MayContain(b) {
						t.Fatalf("%s: another answer", name)
					}
				}
				for _, f := range filters {
					switch f := f.(type) {
					case *bloom.AtomicBlocked, *sketch.Scalable: // one changes its bytes, the next layer of the other is as large as they say
					case *bloom.Filter:
						had := f.MayContain(b)
						if f.CheckAndAdd(b) != had || !f.MayContain(b) || f.Union(f.Clone()) != nil {
							t.Fatalf("CheckAndAdd = %v, want %v, or an added key is denied", !had, had)
						}
					case bloom.Adder:
						if f.(interface{ Count() uint64 }).Count() < 1<<63 && f.Add(b) == nil && !f.MayContain(b) {
							t.Fatalf("%s: an added key is denied", name)
						}
					case *sketch.Bitset:
						if err := f.Set(77); err != nil || !f.Has(77) {
							t.Fatalf("Set: %v", err)
						}
					}
				}
				if !bytes.Equal(b, kept) {
					t.Fatalf("%s: the bytes changed", name)
				}
			}
		}
	})
}
