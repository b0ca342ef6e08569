package wal

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// modes are the ways in which a log is written.
var modes = []struct {
	name string
	o    Options
}{
	{"mapped", Options{Prealloc: 64 << 10}},
	{"unmapped", Options{Prealloc: 64 << 10, NoMap: true}},
	{"growing", Options{}},
}

// plainFS is a file system whose files can neither be mapped nor preallocated.
type plainFS struct{ vfs.FS }

type plainFile struct{ vfs.File }

func (f plainFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return plainFile{file}, err
}

func (plainFile) Preallocate(int64) error { return vfs.ErrUnsupported }

// TestAppend_RoundTrip writes the same records in all modes, on all file
// systems, alone and in groups, far beyond what was preallocated.
func TestAppend_RoundTrip(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	var payloads []string
	for i := range 300 {
		size := rng.IntN(2000)
		if i%50 == 0 {
			size = rng.IntN(10 * blockSize)
		}
		payloads = append(payloads, testPayload(i, size))
	}
	payloads = append(payloads, testPayload(0, 3*maxBuffer), "")
	var first []byte
	for _, mode := range modes {
		for _, fsys := range []struct {
			name string
			fs   vfs.FS
			dir  string
		}{{"mem", vfs.NewMem(), ""}, {"os", vfs.Default, t.TempDir()}, {"plain", plainFS{vfs.NewMem()}, ""}} {
			t.Run(mode.name+"/"+fsys.name, func(t *testing.T) {
				o := mode.o
				o.FS, o.Dir = fsys.fs, fsys.dir
				w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
				for i := 0; i < len(payloads); {
					n := min(1+i%4, len(payloads)-i)
					if end, err := w.AppendBatch(toBytes(payloads[i:i+n]), 5); err != nil || end != w.Len() {
						t.Fatalf("AppendBatch = %d, %v, want %d", end, err, w.Len())
					}
					i += n
				}
				length, err := w.Seal()
				if err != nil || length != w.Len() || w.Synced() != length {
					t.Fatalf("Seal = %d, %v, want %d, all of it synced (%d)", length, err, w.Len(), w.Synced())
				}
				if _, written := w.Stats(); int64(written) != length-headerSize {
					t.Errorf("Stats = %d bytes, want %d", written, length-headerSize)
				}
				if err := w.Trim(); err != nil {
					t.Fatal(err)
				}
				mustClose(t, w)
				var got []string
				_, err = Read(o.FS, o.Dir, 7, testStore, ReadOptions{Known: length}, func(p []byte) error {
					got = append(got, string(p))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				checkPayloads(t, got, payloads)
				f, err := o.FS.Open(o.Dir + "/" + base.LogName(7))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				data := make([]byte, length-headerSize)
				if err := readFull(f, data, headerSize); err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = data
				}
				if !slices.Equal(data, first) {
					t.Error("the file depends on how it was written")
				}
				if size, _ := f.Size(); size != length {
					t.Errorf("trimmed file has %d bytes, want %d", size, length)
				}
			})
		}
	}
}

// TestAppend_OneWritePerGroup: a group costs one write.
func TestAppend_OneWritePerGroup(t *testing.T) {
	for _, mode := range modes {
		fsys := vfs.NewFault(vfs.NewMem(), nil)
		o := mode.o
		o.FS = fsys
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
		writes := func() int64 { return fsys.Count(vfs.OpWrite) + fsys.Count(vfs.OpMapWrite) }
		before := writes()
		if _, err := w.AppendBatch(toBytes(testPayloads(100)), 1); err != nil {
			t.Fatal(err)
		}
		if n := writes() - before; n != 1 {
			t.Errorf("%s: %d writes for a group, want 1", mode.name, n)
		}
		if mapped := fsys.Count(vfs.OpMapWrite) == 1; mapped != (mode.name == "mapped") {
			t.Errorf("%s: written through a mapping: %v", mode.name, mapped)
		}
		mustClose(t, w)
	}
}

func TestAppend_NoAllocation(t *testing.T) {
	for _, mode := range modes {
		o := mode.o
		o.FS, o.Dir, o.Prealloc = vfs.Default, t.TempDir(), o.Prealloc*16
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
		payload := make([]byte, 140)
		group := [][]byte{payload, payload, payload}
		mustAppend(t, w, testPayload(0, 2000), 1)
		allocs := testing.AllocsPerRun(500, func() {
			_, err := w.Append(payload, 1)
			_, err2 := w.AppendBatch(group, 1)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations, want none", mode.name, allocs)
		}
		mustClose(t, w)
	}
}

// TestAppend_SeqFalls: a misuse changes nothing.
func TestAppend_SeqFalls(t *testing.T) {
	w := mustCreate(t, Header{Num: 7, StoreID: testStore, PrevSeq: 10}, Options{FS: vfs.NewMem()})
	defer mustClose(t, w)
	for _, seq := range []base.Seq{9, base.MaxSeq + 1} {
		if _, err := w.Append([]byte("a"), seq); err == nil || w.Len() != headerSize {
			t.Errorf("Append with sequence number %d = %v, log has %d bytes", seq, err, w.Len())
		}
	}
	mustAppend(t, w, "a", 10)
}

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
			for i, err := range []error{aerr, w.Sync(), serr, w.SyncTo(w.Len() + 1)} {
				if err != first && !(i == 3 && w.Len() == want) {
					t.Errorf("%s: after %v failed, call %d = %v, want %v", mode.name, op, i, err, first)
				}
			}
			if err := w.SyncTo(want); err != nil || w.Synced() != want {
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

// TestSeal_EndsTheLog: nothing goes behind a seal; syncs of what it sealed are
// done, and stay so when the file is closed.
func TestSeal_EndsTheLog(t *testing.T) {
	w := mustCreate(t, Header{Num: 7, StoreID: testStore, PrevSeq: 9}, Options{FS: vfs.NewMem(), Prealloc: 64 << 10})
	if err := w.Trim(); err == nil {
		t.Error("Trim before Seal returns no error")
	}
	end := mustAppend(t, w, "a", 10)
	length, err := w.Seal()
	if err != nil {
		t.Fatal(err)
	}
	_, aerr := w.Append([]byte("b"), 11)
	_, serr := w.Seal()
	if !errors.Is(aerr, ErrClosed) || !errors.Is(serr, ErrClosed) {
		t.Errorf("Append and Seal of a sealed log = %v, %v, want ErrClosed", aerr, serr)
	}
	if err := w.Sync(); err != nil {
		t.Errorf("Sync of a sealed log = %v", err)
	}
	mustClose(t, w)
	if err := w.SyncTo(end); err != nil || w.Len() != length {
		t.Errorf("SyncTo behind Close of what is durable = %v, Len = %d, want %d", err, w.Len(), length)
	}
	if err := w.Sync(); !errors.Is(err, ErrClosed) {
		t.Errorf("Sync of a closed log = %v, want ErrClosed", err)
	}
	if err := w.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close = %v, want ErrClosed", err)
	}
	if err := w.Trim(); !errors.Is(err, ErrClosed) {
		t.Errorf("Trim of a closed log = %v, want ErrClosed", err)
	}
}

// TestSeal_Empty: a log without records has a seal like any other, and its
// last sequence number is that of its predecessor.
func TestSeal_Empty(t *testing.T) {
	mem := vfs.NewMem()
	w := mustCreate(t, Header{Num: 7, StoreID: testStore, Prev: 6, PrevSeq: 9}, Options{FS: mem})
	length, err := w.Seal()
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	for _, known := range []int64{-1, length} {
		_, res, err := readLog(mem, 7, ReadOptions{Known: known})
		if err != nil || !res.Sealed || res.LastSeq != 9 || res.Records != 0 || res.Length != length {
			t.Errorf("Read = %+v, %v, want an empty log, sealed at %d, last sequence number 9", res, err, length)
		}
	}
}

// gateFS lets a test stop syncs in the middle.
type gateFS struct {
	vfs.FS
	gate *gate
}

type gate struct {
	entered chan struct{}
	leave   chan error
	on      atomic.Bool
}

type gateFile struct {
	vfs.File
	gate *gate
}

func (f gateFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return gateFile{file, f.gate}, err
}

func (f gateFile) Sync() error {
	if f.gate.on.Load() {
		f.gate.entered <- struct{}{}
		if err := <-f.gate.leave; err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func newGate(t *testing.T) (*Writer, *gate) {
	g := &gate{entered: make(chan struct{}), leave: make(chan error)}
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: gateFS{vfs.NewMem(), g}})
	g.on.Store(true)
	return w, g
}

// TestSyncTo_Shared: who comes during a sync waits for one more, all together,
// and Append goes on beside it.
func TestSyncTo_Shared(t *testing.T) {
	w, g := newGate(t)
	var wg sync.WaitGroup
	first := mustAppend(t, w, "first", 1)
	wg.Go(func() {
		if err := w.SyncTo(first); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	for i := range 20 {
		end := mustAppend(t, w, testPayload(i, 100), 1)
		wg.Go(func() {
			if err := w.SyncTo(end); err != nil || w.Synced() < end {
				t.Errorf("SyncTo(%d) = %v, synced up to %d", end, err, w.Synced())
			}
		})
	}
	if w.Synced() >= first {
		t.Error("a sync counts before it has returned")
	}
	g.leave <- nil
	<-g.entered // all appends came before this one
	g.leave <- nil
	wg.Wait()
	if syncs, _ := w.Stats(); syncs != 2 || w.Synced() != w.Len() {
		t.Errorf("%d syncs up to %d, want 2 up to %d", syncs, w.Synced(), w.Len())
	}
	mustClose(t, w)
}

// TestSyncTo_FailureReachesAll: those who wait for a sync that fails, and those
// who wait for the next one, get its error; there is no next one.
func TestSyncTo_FailureReachesAll(t *testing.T) {
	w, g := newGate(t)
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 10 {
		end := mustAppend(t, w, testPayload(i, 100), 1)
		wg.Go(func() {
			if err := w.SyncTo(end); errors.Is(err, syscall.EIO) {
				failed.Add(1)
			}
		})
	}
	<-g.entered
	g.leave <- syscall.EIO
	wg.Wait()
	if syncs, _ := w.Stats(); failed.Load() != 10 || syncs != 1 || w.Synced() != headerSize {
		t.Errorf("%d of 10 failed after %d syncs, synced up to %d, want all after one, %d", failed.Load(), syncs, w.Synced(), headerSize)
	}
	if _, err := w.Append([]byte("a"), 2); !errors.Is(err, syscall.EIO) {
		t.Errorf("Append after a failed sync = %v, want EIO", err)
	}
	mustClose(t, w)
}

// TestClose_WaitsForSync: the file is not closed under a sync.
func TestClose_WaitsForSync(t *testing.T) {
	w, g := newGate(t)
	end := mustAppend(t, w, "a", 1)
	synced := make(chan error)
	go func() { synced <- w.SyncTo(end) }()
	<-g.entered
	closed := make(chan error)
	go func() { closed <- w.Close() }()
	g.leave <- nil
	if err := <-synced; err != nil {
		t.Errorf("SyncTo beside Close = %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close beside SyncTo = %v", err)
	}
}

// TestWriter_Concurrent runs an appender beside many who sync, for -race: each
// record is durable when its SyncTo returns.
func TestWriter_Concurrent(t *testing.T) {
	for _, mode := range modes {
		mem := vfs.NewMem()
		o := mode.o
		o.FS = mem
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
		var want []string
		ends := make(chan int64, 8)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for end := range ends {
					if err := w.SyncTo(end); err != nil || w.Synced() < end || w.Len() < end {
						t.Errorf("SyncTo(%d) = %v, synced up to %d of %d", end, err, w.Synced(), w.Len())
					}
				}
			})
		}
		for i := range 400 {
			want = append(want, testPayload(i, 400))
			ends <- mustAppend(t, w, want[i], base.Seq(i))
		}
		close(ends)
		wg.Wait()
		got, _, err := readLog(mem.Crash(vfs.CrashConfig{}), 7, ReadOptions{Known: -1})
		if err != nil {
			t.Fatal(err)
		}
		checkPayloads(t, got, want)
		mustClose(t, w)
	}
}
