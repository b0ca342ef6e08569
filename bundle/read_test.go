package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"unsafe"
)

// The lines of filters are cache lines in the memory that Read allocates, and the
// bounds are slices of it.
func TestRead_Aligned(t *testing.T) {
	for n := 1; n < 3000; n += 37 {
		m := &model{}
		m.addRun(t, 0, 1, 0, [][]byte{make([]byte, n), bytes.Repeat([]byte{1}, n)})
		data := m.bytes(t)
		b, err := Read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		first := uintptr(unsafe.Pointer(&b.runs[0].tables[0].smallest[0])) - headerLen - runLen - tableLen
		if first%alignment != 0 {
			t.Fatalf("a bundle of %d bytes lies at %#x", len(data), first)
		}
	}
}

func TestRead_Limit(t *testing.T) {
	data := smallModel(t).bytes(t)
	for _, limit := range []int64{-1, 0, headerLen, int64(len(data)) - 1} {
		r := bytes.NewReader(data)
		if b, err := Read(r, limit); err == nil || errors.Is(err, ErrDamaged) || b != nil {
			t.Errorf("Read with limit %d = %v, %v", limit, b, err)
		}
		if read := len(data) - r.Len(); read > headerLen {
			t.Errorf("%d bytes were read before the limit of %d was found to be too small", read, limit)
		}
	}
	if _, err := Read(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Errorf("Read with the limit that is needed: %v", err)
	}
}

var errCable = errors.New("the cable is loose")

// An error of the reader is that error, not damage.
func TestRead_Error(t *testing.T) {
	data := smallModel(t).bytes(t)
	for _, n := range []int{0, 1, headerLen, 100, len(data)} {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(errCable))
		if _, err := Read(r, 1<<20); !errors.Is(err, errCable) || errors.Is(err, ErrDamaged) {
			t.Errorf("Read gives %v when the reader fails after %d bytes", err, n)
		}
	}
}

// A header that promises more bytes than there are costs little memory.
func TestRead_LengthThatLies(t *testing.T) {
	data := smallModel(t).bytes(t)
	binary.LittleEndian.PutUint64(data[16:], 1<<30)
	binary.LittleEndian.PutUint32(data[60:], checksum(data[:60]))
	var err error
	readLimit.Check(t, len(data), func() { _, err = Read(bytes.NewReader(data), 1<<40) })
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("Read gives %v, want ErrDamaged", err)
	}
}
