package remote

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// TestJoinSums compares with checksums that are computed over all bytes.
func TestJoinSums(t *testing.T) {
	data := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		a, b := r.IntN(200), r.IntN(1<<(1+i%20))
		if b += a; b > len(data) {
			b = len(data)
		}
		if got, want := joinSums(Checksum(data[:a]), Checksum(data[a:b]), int64(b-a)), Checksum(data[:b]); got != want {
			t.Fatalf("%d and %d bytes: %08x, want %08x", a, b-a, got, want)
		}
	}
}

// TestJoined reads two slices as if they were one.
func TestJoined(t *testing.T) {
	all := []byte("headbody")
	for cut := range len(all) + 1 {
		j := joined{all[:cut], all[cut:]}
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
