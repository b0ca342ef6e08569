package wal

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestFragments_AreThoseOfAppendRecord compares the two ways of encoding a record, for
// payloads of about the size of blocks, at different places in a block.
func TestFragments_AreThoseOfAppendRecord(t *testing.T) {
	c := newCodec(testStore, 7)
	rooms := []int{blockSize, blockSize - 1, blockSize / 2, minRoom + 1, minRoom}
	for _, room := range rooms {
		off := int64(headerSize + 3*blockSize - room)
		for _, size := range []int{0, 1, room - 30, room - 20, room - 12, room, blockSize, 2*blockSize - 8, 3 * blockSize, 200_000} {
			if size < 0 {
				continue
			}
			r := record{synced: off - 5, lastSeq: 300, payload: []byte(testPayload(size, size))}
			want := c.appendRecord(nil, off, r)
			var got []byte
			for head, content := range c.fragments(off, r) {
				got = append(append(got, head...), content...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes with %d left in the block: %d bytes in fragments, want the %d of appendRecord", size, room, len(got), len(want))
			}
		}
	}
}

// TestAppendBatch_LargeRecordsTakeNoMemory checks that a record of many megabytes is written
// without a copy, through a mapping or with system calls, and can be read.
func TestAppendBatch_LargeRecordsTakeNoMemory(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	large := []byte(strings.Repeat("0123456789abcdef", 4<<16))
	for _, byCall := range []bool{false, true} {
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: vfs.Default, Dir: t.TempDir(), Prealloc: 64 << 20})
		payloads := [][]byte{[]byte("small"), large, []byte("after")}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 3 {
			if _, err := w.AppendBatch(payloads, 5, byCall); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(large))/16 {
			t.Errorf("by call %v: three records of %d bytes take %d bytes of memory", byCall, len(large), n)
		}
		mustClose(t, w)
	}
}
