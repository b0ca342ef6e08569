package parquet

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is for the blocks, twice while they grow, and a piece.
var limit = fuzzing.Limit{Bytes: 24 << 10, PerByte: 4}

func FuzzRead(f *testing.F) {
	b, err := os.ReadFile("testdata/types.filter")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "key-0")
	f.Add(unhex("15c0ffffff0f"+"1c1c0000"+"1c1c0000"+"1c1c0000"+"1b028101610101620200"), "")
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		var stream, whole Filter
		var n int64
		var streamErr, wholeErr error
		limit.Check(t, len(b), func() { n, streamErr = stream.ReadFrom(bytes.NewReader(b)) })
		limit.Check(t, len(b), func() { wholeErr = whole.UnmarshalBinary(b) })
		if (wholeErr == nil) != (streamErr == nil && n == int64(len(b))) {
			t.Fatalf("ReadFrom: %d of %d, %v; UnmarshalBinary: %v", n, len(b), streamErr, wholeErr)
		}
		for _, err := range []error{streamErr, wholeErr} {
			if err != nil && errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) {
				t.Fatalf("an error that is neither, or both: %v", err)
			}
		}
		if streamErr != nil {
			if !stream.MayContainString(key) {
				t.Fatal("what was not read denies a value")
			}
			return
		}
		if !bytes.HasSuffix(b[:n], stream.AppendBits(nil)) {
			t.Fatal("other blocks")
		}
		var out bytes.Buffer
		if _, err := stream.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		var again Filter
		if err := again.UnmarshalBinary(out.Bytes()); err != nil || !bytes.Equal(again.AppendBits(nil), stream.AppendBits(nil)) {
			t.Fatalf("written again it is another: %v", err)
		}
		if p := stream.FPR(); !(p >= 0 && p <= 1) {
			t.Fatalf("FPR() = %v", p)
		}
		stream.AddString(key)
		if !stream.MayContainString(key) {
			t.Fatal("an added value is denied")
		}
	})
}

// A header that promises more blocks than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	b := append(appendHeader(nil, 0x7fffffe0), make([]byte, 3*4096+5)...)
	limit.Check(t, len(b), func() {
		var f Filter
		if n, err := f.ReadFrom(bytes.NewReader(b)); n != int64(len(b)) || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	})
}
