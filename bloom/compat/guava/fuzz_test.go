package guava

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the words, twice while they grow, and a piece.
var limit = fuzzing.Limit{Bytes: 16 << 10, PerByte: 4}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"testdata/mitz64.bf", "testdata/mitz32.bf"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "key-0")
	}
	f.Add([]byte{1, 255, 0x7f, 0xff, 0xff, 0xff, 0}, "")
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
				t.Fatal("what was not read denies a key")
			}
			return
		}
		stream.MayContainString(key)
		stream.EstimatedCount()
		if p := stream.FPR(); !(p >= 0 && p <= 1) {
			t.Fatalf("FPR() = %v", p)
		}
		var out bytes.Buffer
		if _, err := stream.WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), b[:n]) {
			t.Fatalf("written again: %v, %d bytes of %d", err, out.Len(), n)
		}
		stream.AddString(key)
		stream.AddUTF16(key)
		if !stream.MayContainString(key) || !stream.MayContainUTF16(key) {
			t.Fatal("an added key is denied")
		}
		if _, err := stream.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// A header that promises more words than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	b := append([]byte{1, 7, 4, 0, 0, 0}, make([]byte, 3*4096+5)...)
	limit.Check(t, len(b), func() {
		var f Filter
		if n, err := f.ReadFrom(bytes.NewReader(b)); n != int64(len(b)) || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	})
}
