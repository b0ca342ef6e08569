package process

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A movedStore is a store that this process has open while its directory moves, and another process
// opens the one that is there then.
type movedStore struct {
	t       *testing.T
	r       *rand.Rand
	dir     string // of all that follow
	options *harness.Drawer
	other   *otherProcess

	db           *shale.DB
	stream       *harness.Stream
	acked, begun int
	inBackup     int // writes of the stream
}

// A movedWay is one way in which the directory db goes.
type movedWay struct {
	name string
	// prepare comes before the store is made. It returns the name of its directory; nil: db.
	prepare func(m *movedStore) string
	away    func(m *movedStore)
	// whole is the directory in which the store is whole after that; "": none.
	whole string
	// restored says that db has the backup then. stays says that the store loses nothing.
	restored, stays bool
	// quiet says that the store must not be at work meanwhile, since the directory is the same one.
	quiet bool
	undo  func(m *movedStore) // before the directory is removed
}

var movedWays = []movedWay{
	{name: "renamed", away: func(m *movedStore) { m.must(os.Rename(m.path("db"), m.path("moved"))) }, whole: "moved"},
	{name: "removed", away: func(m *movedStore) { m.removeAll("db") }},
	{name: "a backup restored in its place", away: func(m *movedStore) {
		m.must(os.Rename(m.path("db"), m.path("moved")))
		m.must(os.CopyFS(m.path("db"), os.DirFS(m.path("backup"))))
	}, whole: "moved", restored: true},
	{name: "removed, and a backup restored", away: func(m *movedStore) {
		m.removeAll("db")
		m.must(os.CopyFS(m.path("db"), os.DirFS(m.path("backup"))))
	}, restored: true},
	{name: "emptied, and a backup restored in it", away: func(m *movedStore) {
		files, err := filepath.Glob(m.path("db/*"))
		m.must(err)
		for _, name := range files {
			m.must(os.Remove(name))
		}
		m.must(os.CopyFS(m.path("db"), os.DirFS(m.path("backup"))))
	}, restored: true, quiet: true},
	{name: "link switched to a backup", prepare: linkTo("v1"), away: func(m *movedStore) {
		m.must(os.CopyFS(m.path("v2"), os.DirFS(m.path("backup"))))
		m.switchLink("v2")
	}, whole: "v1", restored: true, stays: true},
	{name: "link switched to nothing", prepare: linkTo("v1"), away: func(m *movedStore) {
		m.must(os.Mkdir(m.path("v2"), 0o755))
		m.switchLink("v2")
	}, whole: "v1", stays: true},
	{name: "a parent renamed", prepare: linkTo("parent/v1"), away: func(m *movedStore) {
		m.must(os.Rename(m.path("parent"), m.path("elsewhere")))
		m.must(os.CopyFS(m.path("parent/v1"), os.DirFS(m.path("backup"))))
	}, whole: "elsewhere/v1", restored: true},
}

// linkTo makes db a link to a directory.
func linkTo(name string) func(m *movedStore) string {
	return func(m *movedStore) string {
		m.must(os.MkdirAll(m.path(name), 0o755))
		if err := os.Symlink(name, m.path("db")); err != nil {
			m.t.Skip(err)
		}
		return name
	}
}

func (m *movedStore) path(name string) string { return filepath.Join(m.dir, filepath.FromSlash(name)) }

func (m *movedStore) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// removeAll removes a directory, also if files come into it meanwhile.
func (m *movedStore) removeAll(name string) {
	for range 100 {
		if os.RemoveAll(m.path(name)) == nil {
			return
		}
	}
	m.must(os.RemoveAll(m.path(name)))
}

// settle waits until the store changes no names any more. A file may still be removed when no flush and no compaction is
// under way. If the directory is emptied and filled again just then, that hits a file of the backup (docs/OPERATIONS.md).
func (m *movedStore) settle() {
	names := func() []string {
		names, err := vfs.Default.List(m.path("db"))
		m.must(err)
		return names
	}
	for was, now := []string(nil), names(); !slices.Equal(was, now); {
		time.Sleep(100 * time.Millisecond)
		was, now = now, names()
	}
}

// switchLink makes db lead to another directory, in one step.
func (m *movedStore) switchLink(to string) {
	m.must(os.Symlink(to, m.path("next")))
	m.must(os.Rename(m.path("next"), m.path("db")))
}

func (m *movedStore) open() {
	m.t.Helper()
	db, err := shale.Open(m.path("db"), m.options.Next())
	m.must(err)
	m.db = db
}

// write makes n writes, of which some are synced, until one is refused.
func (m *movedStore) write(n int) error {
	for range n {
		w := m.stream.Write(m.begun + 1)
		w.Durability = shale.Durability(m.r.IntN(3))
		m.begun++
		if err := m.db.Write(context.Background(), w.Batch()); err != nil {
			return err
		}
		m.acked = m.begun
		if m.r.IntN(40) == 0 {
			if err := m.db.Flush(context.Background()); err != nil {
				return err
			}
		}
	}
	return nil
}

// round has the directory of a store go in a way, and the other process open what is there.
func (m *movedStore) round(how movedWay) {
	t := m.t
	if how.prepare != nil {
		how.prepare(m)
	}
	m.open()
	m.must(m.write(50))
	m.must(m.db.Close())
	m.must(os.CopyFS(m.path("backup"), os.DirFS(m.path("db"))))
	m.inBackup = m.begun
	m.open()
	m.must(m.write(m.r.IntN(60)))

	// The store is at work while its directory goes, or is not.
	busy := !how.quiet && m.r.IntN(4) > 0
	var writing sync.WaitGroup
	var werr error
	if busy {
		pause := time.Duration(m.r.IntN(5000)) * time.Microsecond
		writing.Go(func() { werr = m.write(3000) })
		time.Sleep(pause)
	} else {
		m.must(harness.WaitIdle(m.db))
		m.settle()
	}
	how.away(m)
	late := how.quiet // the directory is locked as long as the store is open
	if !late {
		m.other.must("open db")
		m.other.must("write 60")
		refused(t, m.path("db"), m.options.Next(), m.other.cmd.Process.Pid)
	}
	writing.Wait()
	if !busy {
		werr = m.write(50)
	}
	m.judge(how, werr)
	if late {
		m.other.must("open db")
		m.other.must("write 60")
	}
	refused(t, m.path("db"), m.options.Next(), m.other.cmd.Process.Pid)
	m.other.must("write 60")
	m.other.must("verify")
	m.other.must("close")
	m.check(how)
	if how.undo != nil {
		how.undo(m)
	}
}

// judge ends the store, of which the directory has gone. werr is how its writes ended.
func (m *movedStore) judge(how movedWay, werr error) {
	m.t.Helper()
	want := shale.ErrMoved
	if how.stays {
		want = nil
	}
	// While files are removed, a table may be missing before the lock file is.
	if werr != nil && !errors.Is(werr, shale.ErrMoved) && !(strings.HasPrefix(how.name, "removed") && errors.Is(werr, fs.ErrNotExist)) {
		m.t.Errorf("a write ended with %v", werr)
	}
	for _, call := range []struct {
		name string
		err  error
	}{
		{"Sync", m.db.Sync()}, {"Flush", m.db.Flush(context.Background())}, {"Compact", m.db.Compact(context.Background(), shale.Range{})},
		{"Checkpoint", m.db.Checkpoint(m.path("copy"))}, {"Resume", m.db.Resume()}, {"Err", m.db.Err()}, {"Close", m.db.Close()},
	} {
		if !errors.Is(call.err, want) {
			m.t.Errorf("%s returned %v, want %v", call.name, call.err, want)
		}
	}
}

// check opens what is there when both processes have closed their stores.
func (m *movedStore) check(how movedWay) {
	t := m.t
	db, err := shale.Open(m.path("db"), m.options.Next())
	m.must(err)
	if err := ownerStream().Check(db, 120, 120); err != nil {
		t.Errorf("the store of the other process: %v", err)
	}
	if n, err := m.stream.Count(db); err != nil || how.restored && n != m.inBackup || !how.restored && n != 0 {
		t.Errorf("the store of the other process has %d writes of this one, %v", n, err)
	}
	if err := harness.Strays(db, vfs.Default, m.path("db")); err != nil {
		t.Errorf("the store of the other process: %v", err)
	}
	harness.WantClose(t, db)
	if how.whole == "" {
		return
	}
	if db, err = shale.Open(m.path(how.whole), m.options.Next()); err != nil {
		t.Fatal(err)
	}
	if err := m.stream.Check(db, m.acked, m.begun); err != nil {
		t.Errorf("the store of this process: %v", err)
	}
	harness.WantClose(t, db)
}

// The directory of an open store goes in all ways, and another process opens what is there then. Both
// stores stay whole, and the first one notices. With SHALE_LONG this goes on as long as that.
func TestMoved_OtherProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories with open files can't be moved")
	}
	testenv.CheckLeaks(t)
	options, long := harness.NewDrawer(t), testenv.Long(t)
	least := 3
	if testing.Short() {
		least = 1
	}
	begin, rounds := time.Now(), 0
	for n := 0; n < least || time.Since(begin) < long; n++ {
		for i, how := range movedWays {
			m := &movedStore{t: t, r: rand.New(rand.NewPCG(options.Seed, uint64(n*len(movedWays)+i))), dir: testenv.QuickDir(t), options: options}
			m.stream = harness.NewStream("moved", options.Seed, 200)
			m.other = startOther(t, m.dir)
			m.round(how)
			m.other.kill()
			if t.Failed() {
				t.Fatalf("round %d: %s", rounds, how.name)
			}
			if err := os.RemoveAll(m.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			rounds++
		}
	}
	var names []string
	for _, how := range movedWays {
		names = append(names, how.name)
	}
	t.Logf("%d rounds in %v: %s", rounds, time.Since(begin).Round(time.Millisecond), strings.Join(names, "; "))
}
