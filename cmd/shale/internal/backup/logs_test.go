package backup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// severalLogs returns a store that is closed, and that needs the logs which are named. Each has writes, and so has the table.
func severalLogs(t *testing.T) (w *world, logs []string) {
	w = newWorld(t, 0)
	w.put("a", "1")
	w.must(w.db.Flush(t.Context()))
	for i := range 3 { // a log for each process that was killed
		crashed := w.copied()
		w.must(w.db.Close())
		w.fs = crashed
		w.open()
		for j := range 3 {
			w.put(fmt.Sprint("k", i, j), "2")
		}
	}
	crashed := w.copied()
	w.must(w.db.Close())
	w.fs = crashed
	names, err := crashed.List("db")
	w.must(err)
	for _, name := range names {
		if strings.HasSuffix(name, ".wal") {
			logs = append(logs, name)
		}
	}
	return w, logs
}

func (w *world) copied() *vfs.Mem {
	return w.fs.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
}

// If a log that the store needs is missing or damaged, wherever that is, a run says so. It never makes a backup of the rest.
func TestBackup_LogsAreDamaged(t *testing.T) {
	w, logs := severalLogs(t)
	if len(logs) < 3 {
		t.Fatal(logs)
	}
	for _, name := range logs {
		path := filepath.Join("db", name)
		for _, off := range []int{-1, 3, 30, 4096 + 8, 4096 + 40} { // -1: missing
			fsys := w.copied()
			if off < 0 {
				w.must(fsys.Remove(path))
			} else {
				flip(t, fsys, path, off)
			}
			_, err := Run(t.Context(), fsys, "db", "to", new(Progress))
			var damage *base.CorruptionError
			if !errors.As(err, &damage) || damage.File != name {
				t.Errorf("%s is damaged at %d: %v", name, off, err)
			}
		}
	}
}

func flip(t *testing.T, fsys vfs.FS, path string, off int) {
	t.Helper()
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], int64(off))
	b[0] ^= 1
	_, werr := f.WriteAt(b[:], int64(off))
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Whichever operation fails once, a run that says nothing of it has all that the store has.
func TestBackup_OneFailureIsSaid(t *testing.T) {
	w, _ := severalLogs(t)
	errDevice := errors.New("device")
	for k := int64(1); ; k++ {
		mem := w.copied()
		faults := faultfs.New(mem, faultfs.FailAt(k, errDevice))
		_, err := Run(t.Context(), faults, "db", "to", new(Progress))
		if faults.Ops() < k {
			if k < 100 {
				t.Errorf("%d operations only", k)
			}
			return
		}
		if err != nil {
			continue
		}
		if got, err := restore(t, mem, Moment{}); err != nil || !maps.Equal(got, w.now) {
			t.Errorf("operation %d fails: %v, %v", k, got, err)
		}
	}
}

// A cutting file system cuts off what a log has reserved, once, after somebody has asked for its length.
type cutting struct {
	*vfs.Mem
	t    *testing.T
	wait int // how many times it is asked first
	cut  bool
}

func (c *cutting) Open(name string) (vfs.File, error) {
	f, err := c.Mem.Open(name)
	if err == nil && strings.HasSuffix(name, ".wal") && strings.HasPrefix(name, "db") {
		f = &cuttingFile{f, c, name}
	}
	return f, err
}

type cuttingFile struct {
	vfs.File
	fs   *cutting
	name string
}

func (f *cuttingFile) Size() (int64, error) {
	size, err := f.File.Size()
	if f.fs.wait--; f.fs.wait == 0 {
		f.fs.cut = true
		b, rerr := readFile(f.fs.Mem, f.name)
		w, werr := f.fs.Mem.OpenReadWrite(f.name)
		if werr = errors.Join(rerr, werr); werr == nil {
			werr = errors.Join(w.Truncate(int64(len(bytes.TrimRight(b, "\x00"))+4095)&^4095), w.Close())
		}
		if werr != nil {
			f.fs.t.Fatal(werr)
		}
	}
	return size, err
}

// A log may become shorter while a run reads it, by what its writer had reserved.
func TestBackup_LogIsCut(t *testing.T) {
	for size := 100 << 10; size < 140<<10; size += 4 << 10 { // more than a header promises
		w := newWorld(t, 0)
		w.backup()
		w.put("a", strings.Repeat("1", size))
		cuts := 0
		for wait := 1; ; wait++ {
			c := &cutting{Mem: w.copied(), t: t, wait: wait}
			_, err := Run(t.Context(), c, "db", "to", new(Progress))
			if err != nil {
				t.Errorf("%d bytes, cut when its length was asked for the time %d: %v", size, wait, err)
			} else if got, err := restore(t, c.Mem, Moment{}); err != nil || !maps.Equal(got, w.now) {
				t.Errorf("%d bytes, cut at time %d: %v", size, wait, err)
			}
			if c.cut {
				cuts++
			}
			if c.wait > 0 {
				break
			}
		}
		if cuts < 3 {
			t.Errorf("%d cuts", cuts)
		}
	}
}
