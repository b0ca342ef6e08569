package pieces

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/shaledb/shale/internal/fuzzing"
)

func TestRead(t *testing.T) {
	all := make([]byte, 5*first+7)
	for i := range all {
		all[i] = byte(i * 31)
	}
	for _, n := range []int{0, 1, first - 1, first, first + 1, 2 * first, 3*first + 5, len(all)} {
		r := bytes.NewReader(all)
		b, err := Read(iotest.HalfReader(r), uint64(n))
		if err != nil || !bytes.Equal(b, all[:n]) || r.Len() != len(all)-n {
			t.Errorf("Read of %d bytes: %d bytes, %v, %d are left", n, len(b), err, r.Len())
		}
	}
}

func TestRead_TooMuchPromised(t *testing.T) {
	all := make([]byte, 3*first)
	fuzzing.Limit{Bytes: 8 * first, PerByte: 4}.Check(t, len(all), func() {
		b, err := Read(bytes.NewReader(all), math.MaxInt)
		if len(b) != len(all) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Read = %d bytes, %v", len(b), err)
		}
	})
	broken := errors.New("broken")
	if b, err := Read(io.MultiReader(bytes.NewReader(all[:10]), iotest.ErrReader(broken)), 20); len(b) != 10 || !errors.Is(err, broken) {
		t.Errorf("Read = %d bytes, %v", len(b), err)
	}
}
