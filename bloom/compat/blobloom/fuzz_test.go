package blobloom

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the blocks, twice while they grow, and a piece.
var limit = fuzzing.Limit{Bytes: 16 << 10, PerByte: 4}

func FuzzRead(f *testing.F) {
	b, err := os.ReadFile("testdata/thirty.blob")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint64(1))
	huge := bytes.Clone(b)
	huge[15] = 0x7f
	f.Add(huge, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		var stream, whole Filter
		var n int64
		var streamErr, wholeErr error
		limit.Check(t, len(b), func() { n, streamErr = stream.ReadFrom(bytes.NewReader(b)) })
		limit.Check(t, len(b), func() { wholeErr = whole.UnmarshalBinary(b) })
		if (wholeErr == nil) != (streamErr == nil && n == int64(len(b))) {
			t.Fatalf("ReadFrom: %d of %d, %v; UnmarshalBinary: %v", n, len(b), streamErr, wholeErr)
		}
		for _, err := range []error{streamErr, wholeErr} {
			if err != nil && !errors.Is(err, bloom.ErrDamaged) && !errors.Is(err, bloom.ErrUnknown) {
				t.Fatalf("another error: %v", err)
			}
		}
		if streamErr != nil {
			if !stream.MayContainHash(h) {
				t.Fatal("what was not read denies a key")
			}
			return
		}
		if !bytes.Equal(mustMarshal(t, &stream), b[:n]) {
			t.Fatal("written again it is another")
		}
		if p := stream.FPR(); !(p >= 0 && p <= 1) || stream.EstimatedCount() < 0 {
			t.Fatalf("FPR() = %v, EstimatedCount() = %v", p, stream.EstimatedCount())
		}
		stream.AddHash(h)
		if !stream.MayContainHash(h) {
			t.Fatal("an added key is denied")
		}
	})
}

// A header that promises more blocks than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	f := mustNew(t, Options{Bits: 1 << 20, Hashes: 3})
	b := mustMarshal(t, f)
	b[14] = 0x7f
	limit.Check(t, len(b), func() {
		if n, err := new(Filter).ReadFrom(bytes.NewReader(b)); n != int64(len(b)) || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	})
}
