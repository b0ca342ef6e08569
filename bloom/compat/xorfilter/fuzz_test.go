package xorfilter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"reflect"
	"testing"

	peer "github.com/FastFilter/xorfilter"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the fingerprints, twice while they grow, and a piece.
var limit = fuzzing.Limit{Bytes: 16 << 10, PerByte: 4}

func FuzzReadFuse(f *testing.F) {
	for _, name := range []string{"thirty.fuse8", "thirty.fuse16", "thirty.fuse32", "c-1000.fuse8", "c-1000.fuse16"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(1))
	}
	huge := make([]byte, headerLen)
	for i, w := range []uint32{1 << 18, 1<<18 - 1, 1 << 10, 1 << 28, 1<<28 + 1<<19} {
		binary.LittleEndian.PutUint32(huge[8+4*i:], w)
	}
	f.Add(huge, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		readFuse[uint8](t, b, h)
		readFuse[uint16](t, b, h)
		readFuse[uint32](t, b, h)
	})
}

func readFuse[T Unsigned](t *testing.T, b []byte, h uint64) {
	var stream Fuse[T]
	if !read(t, &stream, new(Fuse[T]), b, h) {
		return
	}
	// The peer reads the same filter.
	inGo, err := stream.AppendGo(nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := peer.LoadBinaryFuse[T](bytes.NewReader(inGo))
	if err != nil || !reflect.DeepEqual(FuseFields[T](*theirs), stream.Fields()) || theirs.Contains(h) != stream.MayContainHash(h) {
		t.Fatalf("the peer reads another filter: %v", err)
	}
}

func FuzzReadXor8(f *testing.F) {
	for _, name := range []string{"thirty.xor8", "c-1000.xor8"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		var stream Xor8
		if read(t, &stream, new(Xor8), b, h) {
			theirs := peer.Xor8(stream.Fields())
			if theirs.Contains(h) != stream.MayContainHash(h) {
				t.Fatal("the peer answers otherwise")
			}
		}
	})
}

// read reads b in two ways, and reports whether stream is a filter then.
func read(t *testing.T, stream, whole filter, b []byte, h uint64) bool {
	var n int64
	var streamErr, wholeErr error
	limit.Check(t, len(b), func() { n, streamErr = stream.ReadFrom(bytes.NewReader(b)) })
	limit.Check(t, len(b), func() { wholeErr = whole.UnmarshalBinary(b) })
	f, with16 := stream.(*Fuse[uint16])
	spare := with16 && f.form == formC && n+spareLen == int64(len(b))
	if (wholeErr == nil) != (streamErr == nil && (n == int64(len(b)) || spare)) {
		t.Fatalf("ReadFrom: %d of %d, %v; UnmarshalBinary: %v", n, len(b), streamErr, wholeErr)
	}
	for _, err := range []error{streamErr, wholeErr} {
		if err != nil && !errors.Is(err, bloom.ErrDamaged) {
			t.Fatalf("another error: %v", err)
		}
	}
	if streamErr != nil {
		if !stream.MayContainHash(h) {
			t.Fatal("what was not read denies a key")
		}
		return false
	}
	if !bytes.Equal(mustMarshal(t, stream), b[:n]) {
		t.Fatal("written again it is another")
	}
	for i := range 64 {
		stream.MayContainHash(bits.RotateLeft64(h, i))
	}
	return true
}

// A header that promises more fingerprints than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	fuse, xor := mustMarshal(t, mustFuse[uint8](t, hashes(100_000))), mustMarshal(t, mustXor8(t, hashes(100_000)))
	for i, w := range []uint32{1 << 18, 1<<18 - 1, 1 << 10, 1 << 28, 1<<28 + 1<<19} {
		binary.LittleEndian.PutUint32(fuse[8+4*i:], w)
	}
	binary.LittleEndian.PutUint32(xor[8:], 1<<28-1)
	for _, c := range []struct {
		f filter
		b []byte
	}{{new(Fuse[uint8]), fuse}, {new(Fuse[uint32]), fuse}, {new(Xor8), xor}} {
		limit.Check(t, len(c.b), func() {
			if n, err := c.f.ReadFrom(bytes.NewReader(c.b)); n != int64(len(c.b)) || !errors.Is(err, bloom.ErrDamaged) {
				t.Errorf("%T: ReadFrom = %d, %v", c.f, n, err)
			}
		})
	}
}
