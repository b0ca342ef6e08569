package bloom

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/internal/testenv"
)

// A filter that is opened answers as the one that was written, keeps its bytes as they were,
// and copies its bits only when it is changed, from any address.
func TestOpenFilter(t *testing.T) {
	written := filtertest.Marshal(t, filterOf(t, FilterOptions{Keys: 1000}, 0, 500))
	for offset := range 9 {
		b := append(make([]byte, offset, offset+len(written)), written...)[offset:]
		for name, change := range map[string]func(f *Filter) error{
			"Add":         func(f *Filter) error { return f.Add(filtertest.Numbered(7000)) },
			"AddHash":     func(f *Filter) error { f.AddHash(1<<60, 2<<60); return nil },
			"AddMany":     func(f *Filter) error { f.AddMany([]uint64{1 << 60, 2 << 60}); return nil },
			"CheckAndAdd": func(f *Filter) error { f.CheckAndAdd(filtertest.Numbered(7000)); return nil },
			"Union":       func(f *Filter) error { return f.Union(filterOf(t, FilterOptions{Keys: 1000}, 500, 500)) },
			"Intersect":   func(f *Filter) error { return f.Intersect(filterOf(t, FilterOptions{Keys: 1000}, 300, 500)) },
			"Reset":       func(f *Filter) error { f.Reset(); return nil },
			"Unmarshal":   func(f *Filter) error { return f.UnmarshalBinary(filtertest.Marshal(t, New(10, 0.1))) },
		} {
			f, err := OpenFilter(b)
			if err != nil {
				t.Fatal(err)
			}
			filtertest.CheckHas(t, f, 0, 500)
			if again := filtertest.Marshal(t, f); !bytes.Equal(again, written) {
				t.Errorf("offset %d: written again it is another", offset)
			}
			clone := f.Clone()
			if err := change(f); err != nil || !bytes.Equal(b, written) {
				t.Fatalf("offset %d, %s: %v, or the bytes changed", offset, name, err)
			}
			want, err := clone, change(clone)
			if err != nil || !bytes.Equal(filtertest.Marshal(t, f), filtertest.Marshal(t, want)) {
				t.Errorf("offset %d: %s differs after opening; %v", offset, name, err)
			}
		}
	}
}

// Opening a filter takes no memory for its bits, as long as it is only asked; on a big-endian machine,
// that for one copy.
func TestOpenFilter_DoesNotCopy(t *testing.T) {
	b := filtertest.Marshal(t, New(1e6, 0.01))
	key := []byte("key")
	limit := fuzzing.Limit{Bytes: 1 << 10}
	if testenv.BigEndian {
		limit.Bytes += uint64(len(b) + len(b)/8) // the allocator rounds up
	}
	limit.Check(t, 0, func() {
		f, err := OpenFilter(b)
		if err != nil || f.MayContain(key) {
			t.Error(err, "or a key is there")
		}
	})
}

// FuzzOpenFilter gives bytes to OpenFilter and UnmarshalBinary, which must agree, and changes
// what it has opened: the bytes stay as they are.
func FuzzOpenFilter(f *testing.F) {
	addFilterGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, filtertest.Reseal(b)} {
			kept := bytes.Clone(b)
			var opened *Filter
			var err error
			decodeLimit.Check(t, len(b), func() { opened, err = OpenFilter(b) })
			read := new(Filter)
			if failed := read.UnmarshalBinary(b); (failed == nil) != (err == nil) {
				t.Fatalf("OpenFilter: %v, UnmarshalBinary: %v", err, failed)
			}
			if err != nil {
				if opened != nil || errors.Is(err, ErrDamaged) == errors.Is(err, ErrUnknown) {
					t.Fatalf("OpenFilter = %v, %v", opened, err)
				}
				continue
			}
			for _, f := range []*Filter{opened, read} {
				if f.MayContain(b) != read.MayContain(b) || f.Add(b) != nil || !f.MayContain(b) {
					t.Fatal("an added key is denied")
				}
			}
			if !bytes.Equal(b, kept) || !bytes.Equal(filtertest.Marshal(t, opened), filtertest.Marshal(t, read)) {
				t.Fatal("opening or adding changed the bytes, or differs from reading")
			}
		}
	})
}

// FuzzReadFrom gives bytes to the reader of streams. It reads no byte that it does not count,
// takes no more memory than the bytes are worth, and what it has read is written as the bytes
// that it took.
func FuzzReadFrom(f *testing.F) {
	names, err := filepath.Glob("testdata/*.filter")
	if err != nil || len(names) == 0 {
		f.Fatalf("no golden filters: %v", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		s, err := OpenStatic(b)
		if err != nil {
			continue // of another kind
		}
		var w bytes.Buffer
		if _, err := s.WriteTo(&w); err != nil {
			f.Fatal(err)
		}
		f.Add(w.Bytes())
		f.Add(append(w.Bytes(), "rest"...))
	}
	limit := fuzzing.Limit{Bytes: 8 << 10, PerByte: 6}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *Static
		var n int64
		var err error
		r := bytes.NewReader(b)
		limit.Check(t, len(b), func() {
			s, r = new(Static), bytes.NewReader(b)
			n, err = s.ReadFrom(r)
		})
		if n != int64(len(b)-r.Len()) {
			t.Fatalf("%d bytes counted, %d read", n, len(b)-r.Len())
		}
		if err != nil {
			if !s.MayContain([]byte("key")) {
				t.Fatalf("%v, and the filter says no", err)
			}
			return
		}
		var w bytes.Buffer
		if wrote, err := s.WriteTo(&w); err != nil || wrote != n || !bytes.Equal(w.Bytes(), b[:n]) {
			t.Fatalf("written again %x, %v", w.Bytes(), err)
		}
	})
}
