package wal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
)

// Logs of a file system whose files take each byte once are used again, and a torn end of
// one, new or used again, is never taken for rot: the bytes behind a record may be anything.
func TestLog_WriteOnce(t *testing.T) {
	testenv.SkipRace(t)
	mem := vfs.NewMem()
	fs, err := crypt.New(mem, crypt.Keys{{ID: 1, Secret: bytes.Repeat([]byte{1}, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{FS: fs, Prealloc: 64 << 10}
	payloads := testPayloads(300)
	for num := base.FileNum(6); num < 8; num++ {
		w := mustCreate(t, Header{Num: num, StoreID: testStore, Prev: o.Recycle}, o)
		var before int64
		for i, p := range payloads {
			before = w.Len()
			mustAppend(t, w, p, base.Seq(i+1))
		}
		got, res, err := readLog(fs, num, ReadOptions{Known: -1})
		if err != nil || len(got) != len(payloads) || !isPrefix(got, payloads) || res.Length != w.Len() {
			t.Fatalf("log %d: %d records, %+v, %v", num, len(got), res, err)
		}
		tearEnd(t, mem, fs, num, before, w.Len(), len(payloads)-1)
		if _, err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, w)
		o.Recycle = num
	}
	if names, _ := fs.List("."); !slices.Equal(names, []string{"000007.wal"}) {
		t.Errorf("files are %q, want the recycled one only", names)
	}
}

// tearEnd takes away the last bytes of a log, from each byte up, and reads it.
func tearEnd(t *testing.T, mem *vfs.Mem, fs vfs.FS, num base.FileNum, from, to int64, records int) {
	t.Helper()
	f, err := mem.OpenReadWrite(base.LogName(num))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	from, to = from+4096, to+4096 // below
	whole := make([]byte, to-from)
	if _, err := f.ReadAt(whole, from); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		torn := append(bytes.Clone(whole[:at]), make([]byte, len(whole)-at)...)
		// What is zero below reads as anything. One of these bytes is the right one in all bits but one.
		for older := range 256 {
			if torn[len(torn)-1] = byte(older); older > 0 && at < len(whole)-1 {
				break
			}
			if _, err := f.WriteAt(torn, from); err != nil {
				t.Fatal(err)
			}
			got, _, err := readLog(fs, num, ReadOptions{Known: -1})
			if err != nil || len(got) < records {
				t.Fatalf("log %d, torn at byte %d of %d: %d records, %v", num, at, len(whole), len(got), err)
			}
		}
	}
	if _, err := f.WriteAt(whole, from); err != nil {
		t.Fatal(err)
	}
}
