package wal

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// TestWriter_FirstErrorIsFinal fails each kind of write once: no later Append,
// Sync or Seal pretends that nothing was, though the device works again.
func TestWriter_FirstErrorIsFinal(t *testing.T) {
	for _, mode := range modes {
		for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpMapWrite, vfs.OpSync, vfs.OpPreallocate} {
			mem := vfs.NewMem()
			fsys := vfs.NewFault(mem, nil)
			o := mode.o
			o.FS = fsys
			w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
			synced := testPayloads(3)
			for _, p := range synced {
				mustAppend(t, w, p, 1)
			}
			mustSync(t, w)
			want := w.Synced()
			fsys.Inject(vfs.FailAt(1, &vfs.Fault{Err: syscall.EIO, Short: true}, op))
			_, first := w.Append(make([]byte, 70<<10), 2) // beyond what is preallocated
			if first == nil {
				first = w.Sync()
			}
			if fsys.Inject(nil); first == nil {
				continue // the mode has no such operation
			}
			if !errors.Is(first, syscall.EIO) || !strings.Contains(first.Error(), base.LogName(7)) {
				t.Errorf("%s: %v fails: error = %v, want EIO in %s", mode.name, op, first, base.LogName(7))
			}
			_, aerr := w.Append([]byte("after"), 3)
			_, serr := w.Seal()
			for i, err := range []error{aerr, w.Sync(), serr, w.SyncTo(w.Len()+1, nil)} {
				if err != first && !(i == 3 && w.Len() == want) {
					t.Errorf("%s: after %v failed, call %d = %v, want %v", mode.name, op, i, err, first)
				}
			}
			if err := w.SyncTo(want, nil); err != nil || w.Synced() != want {
				t.Errorf("%s: SyncTo of what was synced before = %v, %d, want %d", mode.name, err, w.Synced(), want)
			}
			mustClose(t, w)
			for _, c := range vfs.CrashConfigs(1) {
				got, _, err := readLog(mem.Crash(c), 7, ReadOptions{Known: -1})
				if err != nil || len(got) < 3 {
					t.Errorf("%s: after %v failed and a crash %v: %d records, %v, want 3", mode.name, op, c, len(got), err)
				}
			}
		}
	}
}

// TestWriter_FullDisk: each write that needs room may find none, and get half
// of its bytes through.
func TestWriter_FullDisk(t *testing.T) {
	for _, mode := range modes {
		for k := int64(1); k < 200; k++ {
			mem := vfs.NewMem()
			fsys := vfs.NewFault(mem, vfs.FullFrom(k, syscall.ENOSPC))
			o := mode.o
			o.FS = fsys
			w, err := Create(Header{Num: 7, StoreID: testStore}, o)
			if err != nil {
				if !errors.Is(err, syscall.ENOSPC) || mem.OpenFiles() != 0 {
					t.Errorf("%s: Create = %v, %d files open, want ENOSPC and none", mode.name, err, mem.OpenFiles())
				}
				if names, _ := mem.List("."); len(names) != 0 {
					t.Errorf("%s: a failed Create leaves %q", mode.name, names)
				}
				continue
			}
			var done []string
			for i := range 100 {
				p := testPayload(i, 1500)
				if _, err = w.Append([]byte(p), base.Seq(i)); err != nil {
					break
				}
				done = append(done, p)
			}
			if err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: Append = %v, want ENOSPC", mode.name, err)
			}
			mustClose(t, w)
			got, res, rerr := readLog(mem, 7, ReadOptions{Known: -1})
			if rerr != nil || !slices.Equal(got, done) || res.Length != w.Len() {
				t.Fatalf("%s: full at %d: %d records, %+v, %v, want %d", mode.name, k, len(got), res, rerr, len(done))
			}
			if err == nil {
				break
			}
		}
	}
}

// TestCreate_EveryFault fails each operation of Create once, before or after
// it happens, of a new log and of a recycled one. There is an error or a log that
// works; nothing stays open.
func TestCreate_EveryFault(t *testing.T) {
	for _, recycle := range []base.FileNum{0, 6} {
		for _, after := range []bool{false, true} {
			k := int64(1)
			for createWithFault(t, recycle, k, after) {
				k++
			}
			if k < 5 {
				t.Errorf("only %d operations failed", k)
			}
		}
	}
}

// createWithFault reports whether there is a k-th operation.
func createWithFault(t *testing.T, recycle base.FileNum, k int64, after bool) bool {
	mem := vfs.NewMem()
	o := Options{FS: mem, Prealloc: 64 << 10}
	w := mustCreate(t, Header{Num: 6, StoreID: testStore}, o)
	mustAppend(t, w, "old", 1)
	mustSync(t, w)
	mustClose(t, w)
	fsys := vfs.NewFault(mem, vfs.FailAt(k, &vfs.Fault{Err: syscall.EIO, After: after}))
	o.FS, o.Recycle = fsys, recycle
	w, err := Create(Header{Num: 7, StoreID: testStore}, o)
	ops := fsys.Ops()
	fsys.Inject(nil)
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Errorf("operation %d fails: Create = %v, want EIO", k, err)
	}
	if err == nil {
		mustAppend(t, w, "new", 1)
		mustSync(t, w)
		mustClose(t, w)
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("operation %d fails: %d files stay open", k, n)
	}
	for _, c := range vfs.CrashConfigs(uint64(k)) {
		got, _, rerr := readLog(mem.Crash(c), 7, ReadOptions{Known: -1})
		switch {
		case err == nil && rerr == nil && slices.Equal(got, []string{"new"}):
		case err != nil && rerr == nil && len(got) == 0:
		case err != nil && (errors.Is(rerr, ErrNeverUsed) || errors.Is(rerr, fs.ErrNotExist)):
		default:
			t.Errorf("operation %d fails (Create = %v), then crash %v: Read = %q, %v", k, err, c, got, rerr)
		}
	}
	return k <= ops
}

// TestCreate_Recycle: files shorter and longer than wanted, and one that is
// not there.
func TestCreate_Recycle(t *testing.T) {
	const want = 64 << 10
	for _, tt := range []struct{ size, got int64 }{
		{headerSize, want}, {want, want}, {want + 5000, want + 8192}, {10 * want, want}, {-1, want},
	} {
		mem := vfs.NewMem()
		if tt.size >= 0 {
			f, err := mem.Create(base.LogName(6))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte(testPayload(1, int(tt.size)))); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: mem, Prealloc: want, Recycle: 6})
		mustAppend(t, w, "new", 1)
		mustClose(t, w)
		if got := int64(len(readAll(t, mem, 7))); got != tt.got {
			t.Errorf("recycled file of %d bytes has %d, want %d", tt.size, got, tt.got)
		}
		got, _, err := readLog(mem, 7, ReadOptions{Known: -1})
		if err != nil {
			t.Error(err)
		}
		checkPayloads(t, got, []string{"new"})
		if names, _ := mem.List("."); len(names) != 1 {
			t.Errorf("files are %q, want one", names)
		}
	}
}
