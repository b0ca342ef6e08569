package bitsandblooms

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the words, twice while they grow, and a piece. jsonLimit includes
// what encoding/json and base64 need.
var (
	limit     = fuzzing.Limit{Bytes: 16 << 10, PerByte: 4}
	jsonLimit = fuzzing.Limit{Bytes: 32 << 10, PerByte: 32}
)

func FuzzRead(f *testing.F) {
	b, err := os.ReadFile("testdata/thirty.bf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "key-0")
	f.Add(words(100, 3, 192, 1, 2, 3), "")
	f.Add(words(1<<40, 3, 1<<40), "")
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
			if err != nil && !errors.Is(err, bloom.ErrDamaged) {
				t.Fatalf("another error: %v", err)
			}
		}
		if streamErr != nil {
			if !stream.MayContainString(key) {
				t.Fatal("what was not read denies a key")
			}
			return
		}
		var out bytes.Buffer
		if _, err := stream.WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), b[:n]) {
			t.Fatalf("written again: %v, %d bytes of %d", err, out.Len(), n)
		}
		use(t, &stream, key)
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	b, err := os.ReadFile("testdata/thirty.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "key-0")
	f.Add([]byte(`{"m":1,"k":1,"b":"AAAAAAAAAAEAAAAAAAAAAQ=="}`), "")
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		var made Filter
		var err error
		jsonLimit.Check(t, len(b), func() { err = made.UnmarshalJSON(b) })
		if err != nil {
			if !errors.Is(err, bloom.ErrDamaged) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		written, err := made.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var again Filter
		if err := again.UnmarshalJSON(written); err != nil || !bytes.Equal(mustMarshal(t, &again), mustMarshal(t, &made)) {
			t.Fatalf("written again it is another: %v", err)
		}
		use(t, &made, key)
	})
}

func use(t *testing.T, f *Filter, key string) {
	f.EstimatedCount()
	if p := f.FPR(); !(p >= 0 && p <= 1) {
		t.Fatalf("FPR() = %v", p)
	}
	if there := f.MayContainString(key); f.CheckAndAdd([]byte(key)) != there || !f.MayContainString(key) {
		t.Fatal("an added key is denied, or CheckAndAdd tells otherwise")
	}
}

// A header that promises more words than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	b := append(words(1<<32, 3, 1<<32), make([]byte, 3*4096+5)...)
	limit.Check(t, len(b), func() {
		var f Filter
		if n, err := f.ReadFrom(bytes.NewReader(b)); n != int64(len(b)) || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	})
}
