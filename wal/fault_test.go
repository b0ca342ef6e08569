package wal

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestWriter_FirstErrorIsFinal fails each kind of write once. No later Append, Sync or Seal
// succeeds, although the device works again.
func TestWriter_FirstErrorIsFinal(t *testing.T) {
	for _, mode := range modes {
		for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpMapWrite, vfs.OpSync, vfs.OpPreallocate} {
			mem := vfs.NewMem()
			fsys := faultfs.New(mem, nil)
			o := mode.o
			o.FS = fsys
			w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
			synced := testPayloads(3)
			for _, p := range synced {
				mustAppend(t, w, p, 1)
			}
			mustSync(t, w)
			want := w.Synced()
			fsys.Inject(faultfs.FailAt(1, &faultfs.Fault{Err: syscall.EIO, Short: true}, op))
			_, first := w.Append(make([]byte, 70<<10), 2) // more than was preallocated
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

// TestWriter_FullDisk lets each write that needs room find none, and write half of its bytes.
func TestWriter_FullDisk(t *testing.T) {
	for _, mode := range modes {
		for k := int64(1); k < 200; k++ {
			mem := vfs.NewMem()
			fsys := faultfs.New(mem, faultfs.FullFrom(k, syscall.ENOSPC))
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

// TestCreate_EveryFault fails each operation of Create once, before or after it has its
// effect, for a new log and for a recycled one. Create returns an error or a log that works,
// and no file stays open.
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
	fsys := faultfs.New(mem, faultfs.FailAt(k, &faultfs.Fault{Err: syscall.EIO, After: after}))
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
	var want []string
	if recycle == 0 {
		want = append(want, base.LogName(6))
	}
	if err == nil {
		want = append(want, base.LogName(7))
	}
	if names, _ := mem.List("."); !slices.Equal(names, want) {
		t.Errorf("operation %d fails (Create = %v): files are %q, want %q", k, err, names, want)
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

// TestCreate_Recycle recycles files that are shorter and longer than wanted, and one that
// does not exist.
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

// TestAppend_EveryFault fails each write of groups that are small, that fill the buffer, and whose
// batches are written from where they lie. The first error is returned, and by each later call too.
// What was appended before it is still there.
func TestAppend_EveryFault(t *testing.T) {
	testenv.SkipRace(t)
	for _, mode := range modes {
		for k := int64(1); ; k++ {
			mem := vfs.NewMem()
			fsys := faultfs.New(mem, nil)
			o := mode.o
			o.FS = fsys
			w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
			mustAppend(t, w, "before", 1)
			mustSync(t, w)
			fsys.Inject(faultfs.FailAt(k, syscall.EIO, vfs.OpWrite, vfs.OpMapWrite))
			var first error
			for i, sizes := range [][]int{{100}, {1 << 20, 50}, {50, 1 << 20}, {300 << 10, 300 << 10, 300 << 10, 300 << 10, 300 << 10}} {
				var group [][]byte
				for _, n := range sizes {
					group = append(group, make([]byte, n))
				}
				if _, first = w.AppendBatch(group, base.Seq(2+i), i%2 == 1); first != nil {
					break
				}
			}
			fsys.Inject(nil)
			if first == nil {
				mustClose(t, w)
				if k < 4 {
					t.Errorf("%s: the groups made %d writes, want more", mode.name, k-1)
				}
				break
			}
			if !errors.Is(first, syscall.EIO) {
				t.Errorf("%s: write %d fails: %v, want EIO", mode.name, k, first)
			}
			if _, err := w.Append([]byte("after"), 9); err != first {
				t.Errorf("%s: after write %d failed, Append = %v, want %v", mode.name, k, err, first)
			}
			_ = w.Close()
			got, _, err := readLog(mem.Crash(vfs.CrashConfig{}), 7, ReadOptions{Known: -1})
			if err != nil || len(got) == 0 || got[0] != "before" {
				t.Errorf("%s: after write %d failed: %d records, %v", mode.name, k, len(got), err)
			}
		}
	}
}

// TestRead_EveryFault fails each read of a log with whole records, a torn tail, and a flipped bit.
// An error of the disk is returned as such. It is taken neither for the end of the log nor for damage.
func TestRead_EveryFault(t *testing.T) {
	mem := vfs.NewMem()
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: mem, NoMap: true})
	for _, p := range testPayloads(30) {
		mustAppend(t, w, p, 1)
	}
	mustSync(t, w)
	mustAppend(t, w, strings.Repeat("torn", 5000), 40)
	mustClose(t, w)
	whole := readAll(t, mem, 7)
	torn := slices.Clone(whole)
	clear(torn[len(torn)-9000:])
	flipped := slices.Clone(whole)
	flipped[len(flipped)-10000] ^= 4
	for name, data := range map[string][]byte{"whole": whole, "torn": torn, "flipped": flipped} {
		want, _, wantErr := readBytes(data, ReadOptions{Known: -1})
		for k := int64(1); ; k++ {
			fsys := faultfs.New(fileSystem(data), faultfs.FailAt(k, syscall.EIO, vfs.OpRead))
			got, _, err := readLog(fsys, 7, ReadOptions{Known: -1})
			if fsys.Count(vfs.OpRead) < k {
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: read %d fails: error = %v (without: %v), want EIO", name, k, err, wantErr)
			}
			if !isPrefix(got, want) {
				t.Errorf("%s: read %d fails: other records are handed out", name, k)
			}
		}
	}
}

// TestIdentify_Errors: a log that is not there, can't be read, or has no header.
func TestIdentify_Errors(t *testing.T) {
	mem := vfs.NewMem()
	if _, err := Identify(mem, ".", 7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Identify of no log = %v, want fs.ErrNotExist", err)
	}
	mustClose(t, mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: mem}))
	if _, err := Identify(faultfs.New(mem, faultfs.FailAt(1, syscall.EIO, vfs.OpRead)), ".", 7); !errors.Is(err, syscall.EIO) {
		t.Errorf("Identify = %v, want EIO", err)
	}
	if _, err := Identify(fileSystem(make([]byte, 8192)), ".", 7); err == nil || !strings.Contains(err.Error(), "magic") {
		t.Errorf("Identify of zeros = %v, want an error about the magic number", err)
	}
}
