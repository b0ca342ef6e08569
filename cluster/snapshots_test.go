package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

const snapshotsPath = machineDir + "/snapshots"

// files returns the content of all files below dir, by path.
func files(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all
	}
	mustNil(t, err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := fsys.Stat(path); err != nil {
			t.Fatal(err)
		} else if info.IsDir {
			maps.Copy(all, files(t, fsys, path))
			continue
		}
		data, err := readWhole(fsys, path)
		mustNil(t, err)
		all[path] = string(data)
	}
	return all
}

// TestSnapshots_NotWrittenThrough compares the files of snapshots before and after lives that were
// made out of them: hard links make it easy to change a snapshot with the state.
func TestSnapshots_NotWrittenThrough(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 1200, 21)
	disk := vfs.NewMem()
	before := map[string]string{}
	compare := func(when string) {
		t.Helper()
		now := files(t, disk, snapshotsPath)
		for name, want := range before {
			if got, there := now[name]; there && got != want {
				t.Fatalf("%s: %s has changed", when, name)
			}
		}
		before = now
	}
	at := uint64(0)
	for life := range 6 {
		m := mustStart(t, disk)
		mustNil(t, settle(raft.NewInmemStore(), m.state))
		compare("start")
		m.mustBe(h, at)
		for range 2 {
			m.mustApply(h, at, at+100, 3)
			compare("apply")
			if at += 100; life < 5 {
				mustNil(t, m.snapshot(h, at))
			}
			compare("snapshot")
		}
		m.close()
		compare("close")
		if life%2 == 1 { // the next life begins with what the snapshot has
			for _, name := range strings.Fields(states(t, disk)) {
				mustNil(t, removeTree(disk, filepath.Join(machineDir, name)))
			}
		}
	}
	m := mustStart(t, disk)
	defer m.close()
	m.mustBe(h, 1000)
	compare("last start")
	for _, snap := range m.snaps.list {
		if at, err := positionIn(disk, snap.store(), true); err != nil || at != snap.state {
			t.Errorf("snapshot %s is at %v: %v", snap.meta.ID, at, err)
		}
	}
}

// TestSnapshots_LinkAnswersLost replaces a state while each link is made and reported as failed: the copy
// that is made instead must not be written through the link.
func TestSnapshots_LinkAnswersLost(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 300, 5)
	source := mustStart(t, vfs.NewMem())
	defer source.close()
	source.mustApply(h, 0, 300, 50)
	mustNil(t, source.snapshot(h, 300))
	disk := vfs.NewMem()
	faults := faultfs.New(disk, nil)
	m := mustStart(t, faults)
	defer m.close()
	id, err := m.fetch(source)
	mustNil(t, err)
	before := files(t, disk, snapshotsPath)
	faults.Inject(faultfs.FailFrom(1, &faultfs.Fault{Err: syscall.EIO, After: true}, vfs.OpLink))
	_, stream, err := m.snaps.Open(id)
	mustNil(t, err)
	if err := errors.Join(m.state.Restore(stream), stream.Close()); err != nil || faults.Count(vfs.OpLink) == 0 {
		t.Fatalf("restore with %d links: %v", faults.Count(vfs.OpLink), err)
	}
	m.mustBe(h, 300)
	for name, want := range before {
		if got := files(t, disk, snapshotsPath)[name]; got != want {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestSnapshots_Kept makes more of them than are kept, while one is sent.
func TestSnapshots_Kept(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 50, 2)
	disk := vfs.NewMem()
	m := mustStart(t, disk)
	var stream io.ReadCloser
	for i := uint64(10); i <= 50; i += 10 {
		m.mustApply(h, i-10, i, 10)
		mustNil(t, m.snapshot(h, i))
		if i == 10 {
			var err error
			if _, stream, err = m.snaps.Open(m.snaps.newest().meta.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	metas, err := m.snaps.List()
	if err != nil || len(metas) != 2 || metas[0].Index != 50 || metas[1].Index != 40 {
		t.Errorf("List = %v, %v", metas, err)
	}
	if got := metas[0]; got.Term != h[49].Term || !reflect.DeepEqual(got.Configuration, someServers) || got.ConfigurationIndex != 1 || got.Version != 1 {
		t.Errorf("meta is %+v", got)
	}
	names, _ := disk.List(snapshotsPath)
	if len(names) != 3 {
		t.Errorf("the directory has %q", names)
	}
	if n, err := transfer(stream, mustOpenSnapshots(t, vfs.NewMem()), nil); err != nil || n < 100 {
		t.Errorf("the oldest one is sent with %d bytes, %v", n, err)
	}
	if err := errors.Join(stream.Close(), stream.Close()); err != nil {
		t.Error(err)
	}
	if names, _ = disk.List(snapshotsPath); len(names) != 2 {
		t.Errorf("the directory has %q", names)
	}
	m.close()
	putFile(t, disk, snapshotsPath+"/7.tmp", "half")
	putFile(t, disk, snapshotsPath+"/notes", "somebody's")
	again, err := openSnapshots(disk, snapshotsPath)
	mustNil(t, err)
	if got, err := again.List(); err != nil || !reflect.DeepEqual(got, metas) {
		t.Errorf("List after a restart = %v, %v; want %v", got, err, metas)
	}
	if names, _ = disk.List(snapshotsPath); !slices.Contains(names, "notes") || len(names) != 3 {
		t.Errorf("the directory has %q", names)
	}
	if disk.OpenFiles() != 0 {
		t.Errorf("%d files are open", disk.OpenFiles())
	}
}

// TestSnapshots_SameIndex makes two of one state. The later one is the newer one, also if the
// clock has been set back.
func TestSnapshots_SameIndex(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 10, 2)
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	m.mustApply(h, 0, 10, 10)
	now := m.snaps.now()
	for i := range 3 {
		m.snaps.now = func() time.Time { return now.AddDate(0, 0, -i) }
		mustNil(t, m.snapshot(h, 10))
	}
	metas, _ := m.snaps.List()
	if len(metas) != 2 || metas[0].ID <= metas[1].ID || metas[1].ID != fmt.Sprintf("1-10-%d", now.UnixMilli()+1) {
		t.Errorf("List = %+v", metas)
	}
}

// TestSnapshots_CostLinks counts what a snapshot of a store with many tables writes, and what a
// second one does.
func TestSnapshots_CostLinks(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	m := mustStart(t, disk)
	defer m.close()
	h, _ := bigHistory(t, 400)
	m.mustApply(h, 0, uint64(len(h)), 50)
	st := m.state.current.Load()
	mustNil(t, st.db.Flush(t.Context()))
	for range 2 {
		links, creates := 0, 0
		disk.OnOp(func(op vfs.Op, name string) {
			if strings.HasPrefix(name, snapshotsPath) {
				switch op {
				case vfs.OpLink:
					links++
				case vfs.OpCreate:
					creates++
				}
			}
		})
		err := m.snapshot(h, uint64(len(h)))
		disk.OnOp(nil)
		mustNil(t, err)
		names, err := disk.List(m.snaps.newest().store())
		mustNil(t, err)
		tables := 0
		for _, name := range names {
			if strings.HasSuffix(name, ".sst") {
				tables++
			}
		}
		// Manifest, CURRENT (under another name first) and meta.json are written.
		if links < tables || creates > 4 || tables == 0 {
			t.Errorf("%d tables, %d links, %d files created", tables, links, creates)
		}
	}
}

// bigHistory writes n values of 1000 random bytes each, and returns how many bytes of keys and values.
func bigHistory(t testing.TB, n int) (history, int64) {
	t.Helper()
	r := rand.NewChaCha8([32]byte{1})
	var h history
	size := int64(0)
	for i := range n {
		key, value := fmt.Appendf(nil, "key %08d", i), make([]byte, 1000)
		_, _ = r.Read(value)
		data, err := encodePutIfAbsent(key, value, time.Time{})
		mustNil(t, err)
		size += int64(len(key) + len(value))
		h = append(h, &raft.Log{Index: uint64(i + 1), Term: 1, Data: data})
	}
	return h, size
}

// TestSnapshots_MetaDamage flips every bit of meta.json.
func TestSnapshots_MetaDamage(t *testing.T) {
	t.Parallel()
	snap := &snapshot{state: position{7, 2}, meta: raft.SnapshotMeta{Version: 1, ID: "3-9-1700000000000", Index: 9, Term: 3,
		Configuration: someServers, ConfigurationIndex: 4, Size: 12345}}
	data, err := encodeMeta(snap)
	mustNil(t, err)
	got, err := decodeMeta(data)
	if err != nil || !reflect.DeepEqual(got, snap) {
		t.Fatalf("decodeMeta = %+v, %v", got, err)
	}
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if got, err := decodeMeta(bad); err == nil && !reflect.DeepEqual(got, snap) {
				t.Fatalf("bit %d of byte %d flipped: %+v", bit, i, got)
			}
		}
	}
}

// TestSnapshots_MissingFile can't be sent, and asks for another one.
func TestSnapshots_MissingFile(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 40, 2)
	disk := vfs.NewMem()
	m := mustStart(t, disk)
	defer m.close()
	m.mustApply(h, 0, 40, 10)
	mustNil(t, m.snapshot(h, 40))
	snap := m.snaps.newest()
	names, err := disk.List(snap.store())
	mustNil(t, err)
	mustNil(t, disk.Remove(filepath.Join(snap.store(), names[0])))
	_, _, err = m.snaps.Open(snap.meta.ID)
	if damage := (*shale.CorruptionError)(nil); !errors.As(err, &damage) || len(m.snaps.wanted) != 1 {
		t.Errorf("Open without a file: %v, %d wanted", err, len(m.snaps.wanted))
	}
	if _, _, err := m.snaps.Open("1-1-1"); err == nil {
		t.Error("Open of a snapshot that is not there")
	}
}
