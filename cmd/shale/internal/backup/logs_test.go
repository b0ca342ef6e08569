package backup

import (
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
			_, err := Run(t.Context(), fsys, "db", "to")
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
		_, err := Run(t.Context(), faults, "db", "to")
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
