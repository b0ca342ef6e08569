package tablefs

import (
	"bytes"
	"testing"

	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// FuzzDecodeTailHeader decodes the header of a local tail.
func FuzzDecodeTailHeader(f *testing.F) {
	file := File{fileID: fileID{object.KindTable, 12, 0xdeadbeef}, Size: 100_000}
	f.Add(appendTail(nil, remotetest.ExampleStore, file, 60_000, make([]byte, 40_000))[:tailHeaderSize(40_000)], false)
	f.Add(appendTail(nil, remotetest.ExampleStore, file, 99_999, []byte{1}), true)
	f.Fuzz(func(t *testing.T, b []byte, fixed bool) {
		if fixed && len(b) >= object.HeadSize {
			b = bytes.Clone(b)
			copy(b[12:], object.AppendSum(b[:12:12], 0)[12:])
			if len(b) >= tailFixed+object.SumSize {
				end := len(b) - object.SumSize
				copy(b[end:], object.AppendSum(b[:end:end], 0)[end:])
			}
		}
		var h *tailHeader
		var err error
		fuzzing.Limit{Bytes: 128 << 10, PerByte: 256}.Check(t, len(b), func() { h, err = decodeTailHeader(b) })
		if err != nil {
			return
		}
		length := h.size - h.at
		if int64(len(h.sums)) != chunks(length) || int64(len(b)) < tailHeaderSize(length) || h.at < 0 {
			t.Errorf("%x is accepted as %+v", b, h)
		}
	})
}
