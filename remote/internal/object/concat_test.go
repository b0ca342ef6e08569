package object

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// TestJoined reads two slices as if they were one.
func TestJoined(t *testing.T) {
	all := []byte("headbody")
	for cut := range len(all) + 1 {
		j := Concat{all[:cut], all[cut:]}
		if err := iotest.TestReader(io.NewSectionReader(j, 0, int64(len(all))), all); err != nil {
			t.Errorf("cut at %d: %v", cut, err)
		}
		for off := range len(all) + 3 {
			p := make([]byte, 4)
			n, err := j.ReadAt(p, int64(off))
			want := all[min(off, len(all)):min(off+4, len(all))]
			if !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) {
				t.Errorf("cut at %d, offset %d: %q, %v", cut, off, p[:n], err)
			}
		}
		if _, err := j.ReadAt(make([]byte, 1), -1); err == nil {
			t.Error("a negative offset is read")
		}
	}
}
