package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// smallLife returns a store that has lived a little: some tables, a sidecar, an ingestion and two logs.
func smallLife(t testing.TB) *shipped {
	t.Helper()
	s := newShipped(t, 1, NewMem())
	for range 6 {
		s.write(3)
	}
	mustNil(t, s.db.Flush(t.Context()))
	s.ingest()
	s.ship()
	s.publish()
	for range 6 {
		s.write(3)
	}
	s.ship()
	s.publish()
	s.write(2)
	s.ship()
	return s
}

// objects returns all objects of a bucket, by name.
func objects(t testing.TB, b Bucket) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for info, err := range b.List(context.Background(), "", "") {
		mustNil(t, err)
		data, err := ReadObject(context.Background(), b, info.Name, 1<<30)
		mustNil(t, err)
		all[info.Name] = data
	}
	return all
}

// bucketWith returns a bucket with objects.
func bucketWith(t testing.TB, all map[string][]byte) Bucket {
	t.Helper()
	b := NewMem()
	for name, data := range all {
		mustNil(t, PutObject(context.Background(), b, name, data, true))
	}
	return b
}

// The power is cut at each operation of a restore, in every way. What is left is no store, or the
// restored one. Another Restore completes it, with the tables that had come.
func TestRestore_PowerCuts(t *testing.T) {
	s := smallLife(t)
	defer s.close()
	want := s.held()
	ops, kept := 0, int64(0)
	mem := vfs.NewMem()
	var crashed []*vfs.Mem
	var mu sync.Mutex // a new manifest and the temporary file of CURRENT are written at the same time
	mem.OnOp(func(vfs.Op, string) {
		mu.Lock()
		defer mu.Unlock()
		ops++
		for i, c := range vfs.CrashConfigs(uint64(ops)) {
			if (i+ops)%3 == 0 {
				crashed = append(crashed, mem.Crash(c))
			}
		}
	})
	_, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: mem, Fetches: 1})
	mustNil(t, err)
	mem.OnOp(nil)
	for i, disk := range crashed {
		_, err := disk.Stat(filepath.Join("to", base.CurrentName))
		if err == nil {
			db, err := shale.Open("to", &shale.Options{FS: disk, ReadOnly: true})
			if err != nil {
				t.Fatalf("state %d: there is a CURRENT, but %v", i, err)
			}
			sameMap(t, fmt.Sprintf("state %d", i), contents(t, db), want)
			mustNil(t, db.Close())
			continue
		}
		r, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: disk})
		if err != nil {
			t.Fatalf("state %d: restored again: %v", i, err)
		}
		kept += r.Kept
		sameMap(t, fmt.Sprintf("state %d: restored again", i), contentsOf(t, disk, "to"), want)
	}
	if kept == 0 {
		t.Error("no restore has gone on with tables of another")
	}
	t.Logf("%d operations, %d states", ops, len(crashed))
}

// A directory with files of others is refused and left alone, and so is a store.
func TestRestore_RefusesDirectories(t *testing.T) {
	s := smallLife(t)
	defer s.close()
	for _, name := range []string{"notes.txt", base.TableName(5), base.CurrentName, localdir.RecordName} {
		mem := vfs.NewMem()
		mustNil(t, mem.MkdirAll("to"))
		f, err := mem.Create(filepath.Join("to", name))
		mustNil(t, err)
		_, err = f.Write([]byte("precious"))
		mustNil(t, errors.Join(err, f.Sync(), f.Close()))
		before := filesOfDir(t, mem, "to")
		if _, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: mem}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "to") {
			t.Errorf("a directory with %s: %v", name, err)
		}
		if after := filesOfDir(t, mem, "to"); !maps.Equal(before, after) {
			t.Errorf("a directory with %s has changed: %v", name, slices.Sorted(maps.Keys(after)))
		}
	}
	mem := vfs.NewMem()
	_, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: mem})
	mustNil(t, err)
	if _, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: mem}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a restored store: %v", err)
	}
	if _, err := Restore(t.Context(), NewMem(), "other", At{}, &RestoreOptions{FS: mem}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty bucket: %v", err)
	}
	if _, err := mem.Stat("other"); err == nil {
		t.Error("an empty bucket has made a directory")
	}
}

// Files of an interrupted restore may have a second name elsewhere, in a copy of the directory by hard
// links. The next attempt never writes through one: nasty 8.
func TestRestore_HardLinksAreNotWrittenThrough(t *testing.T) {
	s := smallLife(t)
	defer s.close()
	for _, spoiled := range []bool{false, true} {
		mem := vfs.NewMem()
		_, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: mem})
		mustNil(t, err)
		mustNil(t, mem.Remove(filepath.Join("to", base.CurrentName)))
		f, err := mem.Create(filepath.Join("to", restoringName))
		mustNil(t, errors.Join(err, f.Close()))
		names, err := mem.List("to")
		mustNil(t, err)
		mustNil(t, mem.MkdirAll("snapshot"))
		for _, name := range names {
			if name == base.LockName {
				continue // it has the owner's process id, and no data
			}
			mustNil(t, mem.Link(filepath.Join("to", name), filepath.Join("snapshot", name)))
			if typ, _, ok := base.ParseFileName(name); spoiled && ok && (typ == base.FileTable || typ == base.FileLog) {
				f, err := mem.OpenReadWrite(filepath.Join("to", name))
				mustNil(t, err)
				_, err = f.WriteAt([]byte("spoiled"), 4)
				mustNil(t, errors.Join(err, f.Close()))
			}
		}
		before := filesOfDir(t, mem, "snapshot")
		at := s.commits[len(s.commits)-2].seq
		_, err = Restore(t.Context(), s.b, "to", At{Seq: at}, &RestoreOptions{FS: mem})
		mustNil(t, err)
		sameMap(t, "restored again", contentsOf(t, mem, "to"), s.want(at).held)
		if after := filesOfDir(t, mem, "snapshot"); !maps.Equal(before, after) {
			t.Errorf("spoiled %v: files of the snapshot have changed", spoiled)
		}
	}
}

// A checkpoint shares its files with the store. Neither shipping, nor restoring into other directories of
// the same disk, changes them: nasty 8.
func TestRestore_CheckpointsStayAsTheyAre(t *testing.T) {
	s := newShipped(t, 3, NewMem())
	defer s.close()
	checkpoints := map[string]map[string]string{}
	for round := range 6 {
		s.live(8, false)
		s.ship()
		s.publish()
		dir := fmt.Sprintf("checkpoint-%d", round)
		mustNil(t, s.db.Checkpoint(dir))
		checkpoints[dir] = filesOfDir(t, s.disk, dir)
		to := fmt.Sprintf("to-%d", round)
		_, err := Restore(t.Context(), s.b, to, At{}, &RestoreOptions{FS: s.disk})
		mustNil(t, err)
		contentsOf(t, s.disk, to)
	}
	for dir, before := range checkpoints {
		if after := filesOfDir(t, s.disk, dir); !maps.Equal(before, after) {
			t.Errorf("%s has changed", dir)
		}
	}
}

// A restore that is cancelled, or whose bucket or disk fails, returns that error. The next one completes
// it. Progress goes up to the end.
func TestRestore_FailsAndGoesOn(t *testing.T) {
	s := smallLife(t)
	defer s.close()
	ctx, cancel := context.WithCancel(t.Context())
	mem := vfs.NewMem()
	_, err := Restore(ctx, s.b, "to", At{}, &RestoreOptions{FS: mem, Fetches: 1, Progress: func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	last, all := int64(0), int64(0)
	r, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: mem, Progress: func(done, total int64) {
		if done < last || done > total {
			t.Errorf("progress of %d, then %d of %d", last, done, total)
		}
		last, all = done, total
	}})
	mustNil(t, err)
	if last != all || all == 0 || r.Kept > all {
		t.Errorf("progress ends with %d of %d, %d were kept", last, all, r.Kept)
	}
	sameMap(t, "restored again", contentsOf(t, mem, "to"), s.held())
	broken := errors.New("broken")
	stride := int64(3)
	if _, isLong := long(t); isLong {
		stride = 1
	}
	for n := int64(1); ; n += stride {
		disk := faultfs.New(vfs.NewMem(), faultfs.FailAt(n, broken))
		_, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: disk, Fetches: 1})
		if err == nil && disk.Ops() < n {
			break
		}
		disk.Inject(nil)
		if err == nil {
			continue // it was one that a restore does without
		}
		if !errors.Is(err, broken) {
			t.Fatalf("operation %d of the disk fails: %v", n, err)
		}
		if _, err := shale.Open("to", &shale.Options{FS: disk, ReadOnly: true, Exist: shale.MustExist}); err == nil {
			continue // it was complete
		}
		if _, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: disk}); err != nil {
			t.Fatalf("after operation %d of the disk has failed: %v", n, err)
		}
		sameMap(t, fmt.Sprintf("after operation %d of the disk has failed", n), contentsOf(t, disk, "to"), s.held())
	}
}

// A sync fails, so what was written before may be lost, although it can still be read and later syncs succeed. The
// restore is called again and completes, and then the power is cut.
func TestRestore_SyncFails(t *testing.T) {
	s := smallLife(t)
	defer s.close()
	broken := errors.New("broken")
	failed := 0
	for n := int64(1); ; n++ {
		mem := vfs.NewMem()
		disk := faultfs.New(mem, faultfs.FailAt(n, broken, vfs.OpSync))
		_, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: disk, Fetches: 1})
		if disk.Count(vfs.OpSync) < n {
			mustNil(t, err)
			break
		}
		if !errors.Is(err, broken) {
			t.Fatalf("sync %d fails: %v", n, err)
		}
		failed++
		if _, err := Restore(t.Context(), s.b, "to", At{}, &RestoreOptions{FS: disk}); err != nil {
			t.Fatalf("after sync %d has failed: %v", n, err)
		}
		crashed := mem.Crash(vfs.CrashConfig{Policy: vfs.DropAll, Names: vfs.NamesDrop, Seed: uint64(n)})
		sameMap(t, fmt.Sprintf("after sync %d has failed and the power was cut", n), contentsOf(t, crashed, "to"), s.held())
	}
	t.Logf("%d syncs have failed", failed)
}
