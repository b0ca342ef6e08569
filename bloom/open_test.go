package bloom

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/internal/testenv"
)

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
