package shale

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// The end of the log may be half of a record: of a writer that is at work, or that was killed. Advance
// goes on there when the rest has come, or with the log of the next writer.
func TestAdvance_HalfARecord(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.MemtableSize, opts.testing.noMap = 1<<20, true
	f := newFollowed(t, 1, opts)
	ro := f.follow()
	for range 50 {
		f.write()
		f.advance(ro)
	}
	p := ShippingOf(f.db).Position()
	name := filepath.Join("db", base.LogName(base.FileNum(p.Log)))
	mustPut(t, f.db, "k000", strings.Repeat("x", 40<<10)) // several fragments
	f.states[p.LastSeq+1] = scanAll(t, f.db, Range{})
	whole := readAll(t, mem, name)
	end := ShippingOf(f.db).Position().Written
	for _, at := range []int64{p.Written + 1, p.Written + 7, p.Written + 8, p.Written + 100, p.Written + 33<<10, end - 1} {
		cut := slices.Clone(whole)
		clear(cut[at:])
		writeAll(t, mem, name, cut)
		for range 3 { // the second time the end is judged, and the third time it was
			if seq, err := ro.Advance(context.Background()); err != nil || seq != p.LastSeq {
				t.Fatalf("with %d bytes of a record: Advance = %d, %v; want %d", at-p.Written, seq, err, p.LastSeq)
			}
		}
		f.check(ro, p.LastSeq)
	}
	writeAll(t, mem, name, whole)
	if seq, err := ro.Advance(context.Background()); err != nil || seq != p.LastSeq+1 {
		t.Fatalf("with the whole record: Advance = %d, %v; want %d", seq, err, p.LastSeq+1)
	}
	f.check(ro, p.LastSeq+1)
}

// Rot in the newest record, whose write was acknowledged, is an error that names log and offset, and not the
// end of the log for ever.
func TestAdvance_RotAtTheEnd(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.testing.noMap = true
	f := newFollowed(t, 1, opts)
	for range 5 {
		f.write()
	}
	ro := f.follow()
	p := ShippingOf(f.db).Position()
	f.write()
	name := filepath.Join("db", base.LogName(base.FileNum(p.Log)))
	whole := readAll(t, mem, name)
	rotten := slices.Clone(whole)
	rotten[ShippingOf(f.db).Position().Written-3] ^= 1
	writeAll(t, mem, name, rotten)
	_, first := ro.Advance(context.Background())
	_, second := ro.Advance(context.Background())
	var damage *CorruptionError
	if first != nil || !errors.As(second, &damage) || damage.File != base.LogName(base.FileNum(p.Log)) {
		t.Errorf("Advance: %v, then %v", first, second)
	}
	f.check(ro, p.LastSeq)
	writeAll(t, mem, name, whole)
	f.advance(ro)
}

func readAll(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size {
		t.Fatalf("%d bytes of %d: %v", n, size, err)
	}
	return b
}

// writeAll overwrites the beginning of a file.
func writeAll(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Each operation of an Advance fails once, or from then on. The handle shows what it has shown before,
// or all; nothing stays open, and once the disk works again it advances.
func TestAdvance_EachOperationFails(t *testing.T) {
	fault := errors.New("injected")
	for _, once := range []bool{true, false} {
		for at := int64(1); ; at++ {
			if testenv.Race && at%8 != 1 {
				continue
			}
			mem := vfs.NewMem()
			opts := tinyStore(mem)
			opts.CompactionWorkers = -1
			f := newFollowed(t, 3, opts)
			for range 60 {
				f.write()
			}
			disk := faultfs.New(mem, nil)
			f.opts.FS = disk
			ro := f.follow()
			snap := mustSnapshot(t, ro)
			f.opts.FS = mem
			shown := uint64(ro.commits.Visible())
			for range 60 {
				f.write()
			}
			if _, err := f.db.Inspect().RebuildFilters(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := f.db.Compact(context.Background(), Range{}); err != nil {
				t.Fatal(err)
			}
			f.write()
			begin := disk.Ops()
			if once {
				disk.Inject(faultfs.FailAt(at, fault))
			} else {
				disk.Inject(faultfs.FailFrom(at, fault))
			}
			seq, err := ro.Advance(context.Background())
			done := disk.Ops()-begin < at
			disk.Inject(nil)
			switch {
			case err != nil && (once || !errors.Is(err, fault) || seq != shown):
				t.Fatalf("operation %d: Advance = %d, %v", at, seq, err)
			case err == nil && seq != f.acked:
				t.Fatalf("operation %d: Advance = %d, want %d", at, seq, f.acked)
			}
			f.check(ro, seq)
			f.check(snap, shown)
			f.write()
			f.advance(ro)
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
			closeTest(t, ro)
			closeTest(t, f.db)
			wantNoOpenFiles(t, mem)
			if done {
				break
			}
		}
	}
}
