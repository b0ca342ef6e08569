package cluster

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

func mustOpenSnapshots(t testing.TB, fsys vfs.FS) *snapshots {
	t.Helper()
	s, err := openSnapshots(fsys, snapshotsPath)
	mustNil(t, err)
	return s
}

// sourceOf returns a machine with a snapshot of a store with some tables and a log, and the snapshot, open.
func sourceOf(t testing.TB, fsys vfs.FS, seed uint64) (*machine, io.ReadCloser) {
	t.Helper()
	h := newHistory(t, 400, seed)
	o := stateOptions()
	o.CompactionWorkers = -1 // or one may make one table of all
	m, err := startMachineOf(t, fsys, o)
	mustNil(t, err)
	t.Cleanup(m.close)
	for end := uint64(200); end <= 400; end += 100 {
		m.mustApply(h, m.state.applied(), end, 20)
		if end < 400 {
			mustNil(t, m.state.current.Load().db.Flush(t.Context()))
		}
	}
	mustNil(t, m.snapshot(h, 400))
	return m, openNewest(t, m.snaps)
}

func openNewest(t testing.TB, s *snapshots) io.ReadCloser {
	t.Helper()
	_, stream, err := s.Open(s.newest().meta.ID)
	mustNil(t, err)
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// install gives the notice of a snapshot to a receiver.
func install(stream io.ReadCloser, to *snapshots, index uint64) error {
	r := stream.(*snapshotReader)
	sink, err := to.Create(1, index, r.snap.meta.Term, someServers, 1, nil)
	if err != nil {
		return err
	}
	if _, err := sink.Write(r.list.notice()); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// checkInstalled compares the files of the newest snapshots of two members.
func checkInstalled(t testing.TB, from, to *snapshots) {
	t.Helper()
	relative := func(s *snapshots) map[string]string {
		got := map[string]string{}
		for path, content := range files(t, s.fs, s.newest().store()) {
			if name := filepath.Base(path); streamed(name) {
				got[name] = content
			}
		}
		return got
	}
	if want := relative(from); !maps.Equal(relative(to), want) {
		t.Fatal("the files of the snapshot differ from those that were sent")
	}
	if at, err := positionIn(to.fs, to.newest().store(), true); err != nil || at != from.newest().state {
		t.Fatalf("the store that was received is at %v, %v", at, err)
	}
}

func sizeOf(stream io.ReadCloser) (total int64) {
	for _, f := range stream.(*snapshotReader).list.Files {
		total += f.Size
	}
	return total
}

// A badConn changes the byte at an offset of what is written, or ends the connection there.
type badConn struct {
	net.Conn
	at  int64
	cut bool
}

func (c *badConn) Write(p []byte) (int, error) {
	at := c.at
	c.at -= int64(len(p))
	if at < 0 || at >= int64(len(p)) {
		return c.Conn.Write(p)
	}
	if c.cut {
		n, _ := c.Conn.Write(p[:at])
		return n, errors.Join(io.ErrClosedPipe, c.Close())
	}
	bad := append([]byte(nil), p...)
	bad[at] ^= 1
	return c.Conn.Write(bad)
}

// TestTransfer_GoesOn cuts transfers off at many places, and restarts the sender or the receiver. The next attempt does
// not send again what has arrived.
func TestTransfer_GoesOn(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	o := stateOptions()
	o.MemtableSize = 2 << 20 // for a table of many pieces
	source, err := startMachineOf(t, disk, o)
	mustNil(t, err)
	defer source.close()
	h, _ := bigHistory(t, 500)
	source.mustApply(h, 0, 400, 50)
	mustNil(t, source.state.current.Load().db.Flush(t.Context()))
	mustNil(t, source.snapshot(h, 400))
	stream := openNewest(t, source.snaps)
	total := sizeOf(stream)
	for step := int64(0); step < 15; step++ {
		at := (total + 5000) * step / 15
		there := vfs.NewMem()
		to := mustOpenSnapshots(t, there)
		first, err := transfer(stream, to, func(c net.Conn) net.Conn { return &badConn{c, at, true} })
		if err == nil {
			continue // there were fewer bytes
		}
		if err := install(stream, to, 400); err == nil {
			t.Fatalf("cut at %d: the snapshot counts", at)
		}
		from := stream
		switch step % 3 {
		case 1:
			to = mustOpenSnapshots(t, there)
		case 2: // what is read is what a restarted sender reads
			again := mustOpenSnapshots(t, disk)
			from = openNewest(t, again)
		}
		second, err := transfer(from, to, nil)
		if err != nil || second > total-first {
			t.Fatalf("cut at %d: %d bytes of %d were sent, and then %d, %v", at, first, total, second, err)
		}
		mustNil(t, install(from, to, 400))
		checkInstalled(t, source.snaps, to)
		if _, err := there.Stat(to.incoming()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory incoming is there: %v", err)
		}
		if there.OpenFiles() != 0 {
			t.Errorf("%d files are open", there.OpenFiles())
		}
	}
}

// TestTransfer_Damage changes bytes on the way. Either somebody notices, or the change does not matter.
func TestTransfer_Damage(t *testing.T) {
	t.Parallel()
	source, stream := sourceOf(t, vfs.NewMem(), 3)
	total := sizeOf(stream) + int64(len(stream.(*snapshotReader).list.encode()))
	for at := int64(5); at < total; at += 997 { // behind the length of the list
		to := mustOpenSnapshots(t, vfs.NewMem())
		_, err := transfer(stream, to, func(c net.Conn) net.Conn { return &badConn{Conn: c, at: at} })
		if err == nil {
			err = install(stream, to, 400) // the list may be that of other files
		}
		if err == nil {
			t.Fatalf("byte %d has changed, and nobody sees it", at)
		}
		if _, err := transfer(stream, to, nil); err != nil {
			t.Fatalf("after a change of byte %d: %v", at, err)
		}
		if err := install(stream, to, 30); err == nil || !strings.Contains(err.Error(), "holds entry") {
			t.Fatalf("snapshot of entry 30 with the state of entry 400: %v", err)
		}
		if n, err := transfer(stream, to, nil); err != nil || n != 0 {
			t.Fatalf("what has arrived was sent again after the notice was refused: %d bytes, %v", n, err)
		}
		mustNil(t, install(stream, to, 400))
		checkInstalled(t, source.snaps, to)
	}
}

// TestTransfer_OtherSender begins with what another member has sent, whose files have the same names, and with a
// snapshot from before, whose files are links. Nothing is written through these.
func TestTransfer_OtherSender(t *testing.T) {
	t.Parallel()
	_, first := sourceOf(t, vfs.NewMem(), 3)
	other, second := sourceOf(t, vfs.NewMem(), 4)
	total := sizeOf(second)
	disk := vfs.NewMem()
	to := mustOpenSnapshots(t, disk)
	if _, err := transfer(first, to, nil); err != nil {
		t.Fatal(err)
	}
	mustNil(t, install(first, to, 400))
	before := files(t, disk, to.newest().dir)
	kept := openNewest(t, to) // so that it stays
	for _, cut := range []int64{total / 2, total + 100000} {
		if _, err := transfer(second, to, func(c net.Conn) net.Conn { return &badConn{c, cut, true} }); (err == nil) != (cut > total) {
			t.Fatalf("cut at %d of %d: %v", cut, total, err)
		}
		if now := files(t, disk, kept.(*snapshotReader).snap.dir); !maps.Equal(before, now) {
			t.Fatal("a snapshot has changed")
		}
	}
	mustNil(t, install(second, to, 400))
	checkInstalled(t, other.snaps, to)
	// Now a table has the same name and the same size as the one that is here, and other bytes.
	before = files(t, disk, to.newest().dir)
	kept = openNewest(t, to)
	all := second.(*snapshotReader).list.Files
	i := slices.IndexFunc(all, func(f streamFile) bool { return strings.HasSuffix(f.Name, ".sst") })
	table := filepath.Join(other.snaps.newest().store(), all[i].Name)
	f, err := other.snaps.fs.OpenReadWrite(table)
	if err == nil {
		_, err = f.WriteAt([]byte("other bytes"), 100)
		err = errors.Join(err, f.Close())
	}
	mustNil(t, err)
	if n, err := transfer(second, to, nil); err != nil || n == 0 || n == total {
		t.Fatalf("%d bytes of %d were sent for one table that differs: %v", n, total, err)
	}
	if now := files(t, disk, kept.(*snapshotReader).snap.dir); !maps.Equal(before, now) {
		t.Fatal("a snapshot has changed")
	}
	if got, want := files(t, disk, to.incomingStore())[filepath.Join(to.incomingStore(), filepath.Base(table))],
		files(t, other.snaps.fs, filepath.Dir(table))[table]; got != want {
		t.Error("the table that was received is not the one that was sent")
	}
}

// TestTransfer_SharesTables sends the next snapshot of the same sender: only what is new in it.
func TestTransfer_SharesTables(t *testing.T) {
	t.Parallel()
	h, _ := bigHistory(t, 600)
	o := stateOptions()
	o.CompactionWorkers = -1 // or one may write all tables again
	source, err := startMachineOf(t, vfs.NewMem(), o)
	mustNil(t, err)
	defer source.close()
	to := mustOpenSnapshots(t, vfs.NewMem())
	var sent [2]int64
	for i, end := range []uint64{500, 600} {
		source.mustApply(h, source.state.applied(), end, 50)
		if i == 0 {
			mustNil(t, source.state.current.Load().db.Compact(t.Context(), shale.Range{}))
		}
		mustNil(t, source.snapshot(h, end))
		stream := openNewest(t, source.snaps)
		var err error
		if sent[i], err = transfer(stream, to, nil); err != nil {
			t.Fatal(err)
		}
		mustNil(t, install(stream, to, end))
		checkInstalled(t, source.snaps, to)
		if i == 1 && sent[1] > sizeOf(stream)*2/3 {
			t.Errorf("%d of %d bytes were sent again", sent[1], sizeOf(stream))
		}
	}
	if metas, _ := to.List(); len(metas) != 1 {
		t.Errorf("%d snapshots are kept, and those before one that was received are of no use", len(metas))
	}
}

// TestTransfer_ShortFile sends a snapshot whose table has lost its end: another snapshot is asked for.
func TestTransfer_ShortFile(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	source, stream := sourceOf(t, disk, 3)
	name := filepath.Join(source.snaps.newest().store(), stream.(*snapshotReader).list.Files[0].Name)
	f, err := disk.OpenReadWrite(name)
	if err == nil {
		err = errors.Join(f.Truncate(100), f.Close())
	}
	mustNil(t, err)
	_, err = transfer(stream, mustOpenSnapshots(t, vfs.NewMem()), nil)
	if damage := (*shale.CorruptionError)(nil); !errors.As(err, &damage) || !isDamage(err) {
		t.Errorf("transfer of a short file: %v", err)
	}
}

// TestTransfer_DiskFull fills the receiver's disk in the middle. When there is room the next attempt goes on.
func TestTransfer_DiskFull(t *testing.T) {
	t.Parallel()
	source, stream := sourceOf(t, vfs.NewMem(), 3)
	total := sizeOf(stream)
	disk := faultfs.New(vfs.NewMem(), nil)
	to := mustOpenSnapshots(t, disk)
	var room atomic.Int64
	room.Store(int64(len(stream.(*snapshotReader).list.Files)) / 2) // a write for each of these small files
	disk.Inject(func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpWrite && room.Add(-1) < 0 {
			return &faultfs.Fault{Err: syscall.ENOSPC, Short: true}
		}
		return nil
	})
	sent, err := transfer(stream, to, nil)
	if !errors.Is(err, syscall.ENOSPC) || sent == 0 {
		t.Fatalf("%d of %d bytes sent to a full disk: %v", sent, total, err)
	}
	disk.Inject(nil)
	again, err := transfer(stream, to, nil)
	if err != nil || again > total-sent+20000 {
		t.Errorf("%d bytes and then %d of %d: %v", sent, again, total, err)
	}
	disk.Inject(faultfs.FailAt(1, syscall.ENOSPC, vfs.OpCreate)) // of meta.json
	if err := install(stream, to, 400); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("install on a full disk: %v", err)
	}
	disk.Inject(nil)
	if n, err := transfer(stream, to, nil); n != 0 || err != nil {
		t.Errorf("%d bytes were sent again after the install has failed: %v", n, err)
	}
	mustNil(t, install(stream, to, 400))
	checkInstalled(t, source.snaps, to)
}

// TestTransfer_Hangs lets the other side stop in the middle: a receiver that does not read, a sender that sends no more.
// Both end, and the transfer of a hanging sender is ended by the next one.
func TestTransfer_Hangs(t *testing.T) {
	t.Parallel()
	source, stream := sourceOf(t, vfs.NewMem(), 3)
	r := stream.(*snapshotReader)
	send := func(conn net.Conn) error {
		s := fileSender{fs: r.snaps.fs, dir: r.snap.store(), conn: conn, pace: func(int) error { return nil }}
		return s.send(r.list)
	}
	a, b := net.Pipe()
	defer b.Close()
	go func() { _, _ = io.CopyN(io.Discard, b, 500) }() // and never more
	if err := send(stallingConn{a, 20 * time.Millisecond}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a receiver hangs: %v", err)
	}
	to := mustOpenSnapshots(t, vfs.NewMem())
	received := make(chan error, 1)
	for _, patience := range []time.Duration{20 * time.Millisecond, time.Hour} {
		a, b = net.Pipe()
		defer a.Close()
		go func() { received <- to.receive(stallingConn{b, patience}) }()
		if _, err := a.Write(appendFrame(nil, kindFiles, r.list.encode())); err != nil {
			t.Fatal(err)
		}
		if patience == time.Hour {
			break
		}
		if err := <-received; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a sender hangs: %v", err)
		}
	}
	if n, err := transfer(stream, to, nil); err != nil || n == 0 || <-received == nil {
		t.Errorf("another sender comes: %d bytes, %v", n, err)
	}
	mustNil(t, install(stream, to, 400))
	checkInstalled(t, source.snaps, to)
}

// TestSnapshots_OpenNoTable counts the tables that are opened while a snapshot is made and received: none, whatever their
// number, but for sending them.
func TestSnapshots_OpenNoTable(t *testing.T) {
	t.Parallel()
	for _, n := range []int{50, 400} {
		var opened atomic.Int64
		count := func(op vfs.Op, name string, _ int64) error {
			if op == vfs.OpOpen && strings.Contains(name, "snapshots") && strings.HasSuffix(name, ".sst") {
				opened.Add(1)
			}
			return nil
		}
		disk, there := faultfs.New(vfs.NewMem(), count), faultfs.New(vfs.NewMem(), count)
		o := stateOptions()
		o.TableSize = 4 << 10
		m, err := startMachineOf(t, disk, o)
		mustNil(t, err)
		to := mustOpenSnapshots(t, there)
		h, _ := bigHistory(t, n)
		m.mustApply(h, 0, uint64(n), 10)
		mustNil(t, m.state.current.Load().db.Flush(t.Context()))
		mustNil(t, m.snapshot(h, uint64(n)))
		stream := openNewest(t, m.snaps)
		disk.Inject(nil) // they are read to be sent
		if _, err := transfer(stream, to, nil); err != nil {
			t.Fatal(err)
		}
		mustNil(t, install(stream, to, uint64(n)))
		if tables := len(m.state.current.Load().db.Inspect().Tables()); opened.Load() > 0 || tables < n/10 {
			t.Errorf("%d tables, %d opened", tables, opened.Load())
		}
		if _, err := positionIn(there, to.newest().store(), true); err != nil || opened.Load() == 0 {
			t.Errorf("%v; the test counts %d tables of a store that is opened", err, opened.Load())
		}
		m.close()
	}
}

// TestSnapshots_FilesChecked makes a snapshot whose store lacks a table, has a short one, or a short log.
func TestSnapshots_FilesChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ suffix, what string }{{".sst", "gone"}, {".sst", "short"}, {".sst", "long"}, {".wal", "short"}, {".wal", "gone"}} {
		disk := vfs.NewMem()
		source, _ := sourceOf(t, disk, 3)
		dir := source.snaps.newest().store()
		mustNil(t, checkFiles(disk, dir))
		names, err := disk.List(dir)
		mustNil(t, err)
		state, err := manifest.Load(disk, dir)
		mustNil(t, err)
		// A log that was flushed just before may be there and not be needed.
		idle := func(name string) bool {
			return c.suffix == ".wal" && !slices.ContainsFunc(state.Logs, func(l manifest.LogInfo) bool { return base.LogName(l.Num) == name && l.Length > 10 })
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			info, err := disk.Stat(path)
			mustNil(t, err)
			if !strings.HasSuffix(name, c.suffix) || info.Size == 0 || idle(name) {
				continue
			}
			if c.what == "gone" {
				err = disk.Remove(path)
			} else {
				var f vfs.File
				if f, err = disk.OpenReadWrite(path); err == nil {
					size := int64(10)
					if c.what == "long" {
						size = info.Size + 1
					}
					err = errors.Join(f.Truncate(size), f.Close())
				}
			}
			mustNil(t, err)
			break
		}
		if err := checkFiles(disk, dir); !isDamage(err) {
			t.Errorf("a file %s is %s: %v", c.suffix, c.what, err)
		}
	}
}

// The files of a snapshot have arrived, and its notice never comes: another member leads, and the log leads on. They go
// with the next snapshot of the member's own that is as far.
func TestTransfer_NoticeNeverComes(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 400, 9)
	from, to := mustStart(t, vfs.NewMem()), mustStart(t, vfs.NewMem())
	defer from.close()
	defer to.close()
	answers := func(m *machine, first, last uint64) {
		t.Helper()
		m.mustApply(h, first, last, 50)
	}
	snapshot := func(m *machine, index uint64) {
		t.Helper()
		mustNil(t, m.snapshot(h, index))
	}
	answers(from, 0, 300)
	snapshot(from, 300)
	stream := openNewest(t, from.snaps)
	defer stream.Close()
	if _, err := transfer(stream, to.snaps, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		index uint64
		there bool
	}{{200, true}, {400, false}} {
		answers(to, to.state.applied(), c.index)
		snapshot(to, c.index)
		if _, err := to.state.fs.Stat(to.snaps.incoming()); (err == nil) != c.there {
			t.Errorf("with a snapshot of %d the files of one of 300 are there: %v, %v", c.index, err == nil, err)
		}
	}
}

// Raft waits for a member that installs a snapshot for less time than the log is held for it.
func TestTransport_InstallEndsBeforeTheHold(t *testing.T) {
	t.Parallel()
	if most := noticeSize / installScale * transportTimeout; most >= holdPatience {
		t.Errorf("raft waits for %v, the log is held for %v", most, holdPatience)
	}
}
