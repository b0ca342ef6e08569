package bip37

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the largest filter that may exist.
var limit = fuzzing.Limit{Bytes: 48 << 10, PerByte: 2}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"testdata/hundred.filterload", "testdata/large.filterload"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte("one"))
	}
	f.Add(unhex("03614e9b050000000000000001"), unhex("99108ad8ed9bb6274d3980bab5a85c048f0950c8"))
	f.Fuzz(func(t *testing.T, b, element []byte) {
		var stream, whole Filter
		var n int64
		var streamErr, wholeErr error
		limit.Check(t, len(b), func() { n, streamErr = stream.ReadFrom(bytes.NewReader(b)) })
		limit.Check(t, len(b), func() { wholeErr = whole.UnmarshalBinary(b) })
		if (wholeErr == nil) != (streamErr == nil && n == int64(len(b))) {
			t.Fatalf("ReadFrom: %d of %d, %v; UnmarshalBinary: %v", n, len(b), streamErr, wholeErr)
		}
		for _, err := range []error{streamErr, wholeErr} {
			if err != nil && !errors.Is(err, bloom.ErrDamaged) {
				t.Fatalf("another error: %v", err)
			}
		}
		if streamErr != nil {
			if !stream.MayContain(element) {
				t.Fatal("what was not read denies an element")
			}
			return
		}
		if !bytes.Equal(mustMarshal(t, &stream), b[:n]) {
			t.Fatal("written again it is another")
		}
		if p := stream.FPR(); !(p >= 0 && p <= 1) {
			t.Fatalf("FPR() = %v", p)
		}
		stream.Add(element)
		if !stream.MayContain(element) {
			t.Fatal("an added element is denied")
		}
	})
}
