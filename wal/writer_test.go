package wal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
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

// TestAppend_RoundTrip writes the same records in all modes, on all file systems, alone and
// in groups, and far more than was preallocated.
func TestAppend_RoundTrip(t *testing.T) {
	testenv.SkipRace(t)
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
					if end, err := w.AppendBatch(toBytes(payloads[i:i+n]), 5, n == 2); err != nil || end != w.Len() {
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

// TestAppend_OneWritePerGroup checks that a group takes one write.
func TestAppend_OneWritePerGroup(t *testing.T) {
	for _, mode := range modes {
		fsys := faultfs.New(vfs.NewMem(), nil)
		o := mode.o
		o.FS = fsys
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
		writes := func() int64 { return fsys.Count(vfs.OpWrite) + fsys.Count(vfs.OpMapWrite) }
		before := writes()
		if _, err := w.AppendBatch(toBytes(testPayloads(100)), 1, false); err != nil {
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
			_, err2 := w.AppendBatch(group, 1, false)
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

// TestAppend_SeqFalls checks that a wrong sequence number changes nothing.
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

// TestSeal_EndsTheLog checks that nothing is appended after a seal. Syncs of the sealed
// records succeed, even after the file is closed.
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
	if !errors.Is(aerr, errClosed) || !errors.Is(serr, errClosed) {
		t.Errorf("Append and Seal of a sealed log = %v, %v, want errClosed", aerr, serr)
	}
	if err := w.Sync(); err != nil {
		t.Errorf("Sync of a sealed log = %v", err)
	}
	mustClose(t, w)
	if err := w.SyncTo(end, nil); err != nil || w.Len() != length {
		t.Errorf("SyncTo behind Close of what is durable = %v, Len = %d, want %d", err, w.Len(), length)
	}
	if err := w.Sync(); !errors.Is(err, errClosed) {
		t.Errorf("Sync of a closed log = %v, want errClosed", err)
	}
	if err := w.Close(); !errors.Is(err, errClosed) {
		t.Errorf("second Close = %v, want errClosed", err)
	}
	if err := w.Trim(); !errors.Is(err, errClosed) {
		t.Errorf("Trim of a closed log = %v, want errClosed", err)
	}
}

// TestSeal_Empty checks that a log without records has a seal like any other. Its last
// sequence number is that of the log before.
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
