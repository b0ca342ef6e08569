package bundle

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
)

// A model is the content of a bundle, with all keys.
type model struct {
	spec    Spec
	filters [][][]byte
	keys    [][][][]byte // of each table of each run
	kinds   []bloom.Kind // of the filters, in turn; none: blocked
}

// addRun adds a run of the keys, in any order, with this many tables. The tables use the
// hash functions in turn. With bits 0 there are no filters.
func (m *model) addRun(t testing.TB, level, tables int, bits float64, keys [][]byte, hashers ...bloom.Hasher) {
	t.Helper()
	keys = slices.Clone(keys)
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	var r Run
	var filters [][]byte
	var of [][][]byte
	for i := range tables {
		part := keys[len(keys)*i/tables : len(keys)*(i+1)/tables]
		if len(part) == 0 {
			continue
		}
		r.Tables = append(r.Tables, Table{Smallest: part[0], Largest: part[len(part)-1], Keys: uint64(len(part))})
		h := bloom.Hasher{}
		if len(hashers) > 0 {
			h = hashers[i%len(hashers)]
		}
		kind := bloom.KindBlocked
		if len(m.kinds) > 0 {
			kind = m.kinds[i%len(m.kinds)]
		}
		filters = append(filters, filterOf(t, part, kind, bits, h))
		of = append(of, part)
	}
	r.Level = level
	m.spec.Runs = append(m.spec.Runs, r)
	m.filters = append(m.filters, filters)
	m.keys = append(m.keys, of)
}

func filterOf(t testing.TB, keys [][]byte, kind bloom.Kind, bits float64, h bloom.Hasher) []byte {
	t.Helper()
	if bits == 0 {
		return nil
	}
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = h.Hash(k)
	}
	b, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: kind, BitsPerKey: bits, Hasher: h})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bytes returns the file.
func (m *model) bytes(t testing.TB) []byte {
	t.Helper()
	var w bytes.Buffer
	n, err := Write(&w, &m.spec, func(run, table int) ([]byte, error) { return m.filters[run][table], nil })
	if err != nil || n != int64(w.Len()) {
		t.Fatalf("Write = %d, %v; %d bytes written", n, err, w.Len())
	}
	return w.Bytes()
}

// mayContain is the answer that a bundle must give, found in the simplest way.
func (m *model) mayContain(key []byte) bool {
	for i, r := range m.spec.Runs {
		for j, t := range r.Tables {
			if bytes.Compare(key, t.Smallest) < 0 || bytes.Compare(key, t.Largest) > 0 {
				continue
			}
			if m.filters[i][j] == nil {
				return true
			}
			f, err := bloom.OpenStatic(m.filters[i][j])
			if err != nil || f.MayContainHash(f.Hasher().Hash(key)) {
				return true
			}
		}
	}
	return false
}

// each calls fn with every key.
func (m *model) each(fn func(key []byte)) {
	for _, run := range m.keys {
		for _, table := range run {
			for _, key := range table {
				fn(key)
			}
		}
	}
}

func mustOpen(t testing.TB, data []byte) *Bundle {
	t.Helper()
	b, err := Open(data)
	if err == nil {
		err = b.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hashersHere returns the hash functions that package bloom has.
func hashersHere() []bloom.Hasher {
	all := []bloom.Hasher{{}}
	for i, id := range []bloom.HashID{bloom.HashXXH3, bloom.HashSipHash, bloom.HashSipHash, bloom.HashSipHash, bloom.HashSipHash} {
		seed := uint64(i) * 0x9e3779b97f4a7c15
		if h, err := bloom.NewHasher(id, seed); err == nil {
			all = append(all, h)
		}
	}
	return all
}

// smallModel has all that a bundle can have: runs with one table and with more, a
// table without a filter, empty keys and long ones.
func smallModel(t testing.TB) *model {
	m := &model{spec: Spec{StoreID: 0x0102030405060708, Seq: 77, Created: time.Unix(1_700_000_000, 0)}}
	var keys [][]byte
	for i := range 30 {
		keys = append(keys, fmt.Appendf(nil, "key-%03d", i*7))
	}
	m.addRun(t, 0, 1, 24, keys[:9])
	m.addRun(t, 0, 1, 0, [][]byte{[]byte("key-900"), []byte("key-950")})
	m.addRun(t, 1, 3, 10, keys)
	m.addRun(t, 6, 2, 8, [][]byte{{}, {0}, []byte("a"), bytes.Repeat([]byte("key-"), 20)})
	return m
}
