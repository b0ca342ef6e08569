package holiman

import (
	"bytes"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the bits, twice while they grow, and a piece. gzipLimit includes the
// decompressor. jsonLimit includes what encoding/json needs.
var (
	limit     = fuzzing.Limit{Bytes: 96 << 10, PerByte: 4}
	gzipLimit = fuzzing.Limit{Bytes: 256 << 10, PerByte: 0}
	jsonLimit = fuzzing.Limit{Bytes: 32 << 10, PerByte: 32}
)

func testdata(f *testing.F, name string) []byte {
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func FuzzRead(f *testing.F) {
	b := testdata(f, "thirty.bf")
	f.Add(b, uint64(1))
	huge := bytes.Clone(b)
	huge[33] = 0x7f
	f.Add(huge, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		if len(b) > 0 && b[0] == gzipMagic {
			t.Skip("that is for FuzzReadGzip")
		}
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
		use(t, &stream, h)
	})
}

func FuzzReadGzip(f *testing.F) {
	f.Add(testdata(f, "peer-1000.bf.gz"), uint64(1))
	f.Add(packed(f, mustNew(f, Options{Bits: 1 << 20, Seeds: []uint64{1}})), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		b = append([]byte{gzipMagic, 0x8b}, b[min(2, len(b)):]...)
		var made Filter
		var err error
		const most = 64 << 10
		gzipLimit.Check(t, len(b), func() { _, err = made.ReadMax(bytes.NewReader(b), most) })
		if err != nil {
			if !errors.Is(err, bloom.ErrDamaged) && !errors.Is(err, bloom.ErrUnknown) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		var again Filter
		if _, err := again.ReadFrom(bytes.NewReader(packed(t, &made))); err != nil || !bytes.Equal(mustMarshal(t, &again), mustMarshal(t, &made)) {
			t.Fatalf("written again it is another: %v", err)
		}
		use(t, &made, h)
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	f.Add(testdata(f, "peer-1000.json"), uint64(1))
	f.Add([]byte(`{"version":"v02\n","bits":[6],"keys":[1,2],"m":64,"n":1}`), uint64(5))
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		var made Filter
		var err error
		jsonLimit.Check(t, len(b), func() { err = made.UnmarshalJSON(b) })
		if err != nil {
			if !errors.Is(err, bloom.ErrDamaged) && !errors.Is(err, bloom.ErrUnknown) {
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
		use(t, &made, h)
	})
}

func use(t *testing.T, f *Filter, h uint64) {
	if p := f.FPR(); !(p >= 0 && p <= 1) || math.IsNaN(f.EstimatedCount()) {
		t.Fatalf("FPR() = %v, EstimatedCount() = %v", p, f.EstimatedCount())
	}
	if f.AddHash(h); !f.MayContainHash(h) {
		t.Fatal("an added key is denied")
	}
}

// A header that promises more bits than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	b := mustMarshal(t, mustNew(t, Options{Bits: 1 << 20, Seeds: []uint64{1, 2}}))
	b[31] = 0x3f
	limit.Check(t, len(b), func() {
		if n, err := new(Filter).ReadFrom(bytes.NewReader(b)); n != int64(len(b)) || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	})
}
