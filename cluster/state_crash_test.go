package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A stateLife is what a member goes through in a crash test. Its log is in memory and never torn: logstore_crash_test.go
// tears logs. It has the entries from first to last.
type stateLife struct {
	t           testing.TB
	h           history
	source      *machine // has a snapshot of entry 150
	first, last atomic.Uint64
	snapshot    atomic.Uint64 // the index of the newest snapshot that was acknowledged
}

const lifeEnd = 200

func newStateLife(t testing.TB, seed uint64) *stateLife {
	l := &stateLife{t: t, h: newHistory(t, lifeEnd, seed), source: mustStart(t, vfs.NewMem())}
	if _, err := l.source.apply(l.h, 0, 150, 30); err != nil {
		t.Fatal(err)
	}
	mustNil(t, l.source.snapshot(l.h, 150))
	t.Cleanup(l.source.close)
	l.first.Store(1)
	return l
}

// run lives on disk, with two restarts, and returns the first error.
func (l *stateLife) run(disk vfs.FS) error {
	var m *machine
	at := uint64(0)
	start := func() (err error) {
		if m, err = startMachine(l.t, disk); err == nil {
			err = settle(l.log(), m.state)
		}
		return err
	}
	apply := func(to uint64) func() error {
		return func() error {
			l.last.Store(to) // the log has the entries before they are applied
			from := at
			at = to
			_, err := m.apply(l.h, from, to, 4)
			return err
		}
	}
	snapshot := func() error {
		err := m.snapshot(l.h, at)
		if err == nil {
			l.snapshot.Store(at)
		}
		return err
	}
	receive := func() error {
		err := m.receive(l.source)
		if err == nil {
			l.snapshot.Store(150)
			at = 150
			l.last.Store(150) // the log is empty
			l.first.Store(151)
		}
		return err
	}
	stop := func() error {
		defer func() { m = nil }()
		return m.state.Close()
	}
	for _, step := range []func() error{start, apply(25), snapshot, apply(60), snapshot, apply(80), stop,
		start, apply(100), snapshot, receive, apply(180), stop, start, apply(lifeEnd), stop} {
		if err := step(); err != nil {
			if m != nil && m.state != nil {
				_ = m.state.Close()
			}
			return err
		}
	}
	return nil
}

// log returns the log as it is.
func (l *stateLife) log() *raft.InmemStore {
	log := raft.NewInmemStore()
	for i := l.first.Load(); i <= l.last.Load(); i++ {
		if err := log.StoreLog(l.h[i-1]); err != nil {
			l.t.Fatal(err)
		}
	}
	return log
}

// judge starts a machine with what is on the disk, and returns what is wrong with it. It goes on
// to the end of the history.
func (l *stateLife) judge(disk vfs.FS) error {
	m, err := startMachine(l.t, disk)
	if err != nil {
		return err
	}
	if err := l.judgeStarted(disk, m); err != nil {
		return errors.Join(err, m.state.Close())
	}
	return m.state.Close()
}

func (l *stateLife) judgeStarted(disk vfs.FS, m *machine) error {
	if err := settle(l.log(), m.state); err != nil {
		return err
	}
	if err := m.check(l.h); err != nil {
		return err
	}
	metas, err := m.snaps.List()
	if err != nil {
		return err
	}
	behind := uint64(0) // where raft goes on
	if len(metas) > 0 {
		behind = metas[0].Index
	}
	if behind < l.snapshot.Load() || m.state.applied() < behind {
		return fmt.Errorf("the newest snapshot is of entry %d, the state at %d; acknowledged was %d", behind, m.state.applied(), l.snapshot.Load())
	}
	for _, snap := range m.snaps.list {
		if err := l.judgeSnapshot(disk, snap); err != nil {
			return fmt.Errorf("snapshot %s: %w", snap.meta.ID, err)
		}
	}
	if _, err := m.apply(l.h, behind, lifeEnd, 40); err != nil {
		return err
	}
	if m.state.applied() != lifeEnd {
		return fmt.Errorf("it ends at %d", m.state.applied())
	}
	return m.check(l.h)
}

// judgeSnapshot compares a snapshot with the history.
func (l *stateLife) judgeSnapshot(disk vfs.FS, snap *snapshot) (err error) {
	at, err := positionIn(disk, snap.store(), true)
	if err != nil || at != snap.state || l.h.lastCommand(snap.meta.Index) != at.index {
		return fmt.Errorf("it is at %v instead of %v: %w", at, snap.state, err)
	}
	db, err := shale.Open(snap.store(), &shale.Options{FS: disk, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	got, err := contents(db)
	delete(got, string(reservedKey))
	delete(got, string(digestKey))
	if want, _ := l.h.at(at.index); err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("it has\n%v, want\n%v", got, want)
	}
	return err
}

// long reports whether the long form of a test is wanted.
func long() bool { return os.Getenv("SHALE_LONG") != "" }

// TestState_CrashAtEveryOperation cuts the power before operations of a life: while commands are
// applied, snapshots are made, one is received, and the state is replaced by it. By default it crashes
// once at every fourth operation or so, in a way that changes; with SHALE_LONG at each, in all ways.
func TestState_CrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	l := newStateLife(t, 11)
	var mu sync.Mutex // background work calls, too
	var failed error
	ops, crashes := 0, 0
	r := rand.New(rand.NewPCG(1, 2))
	crash := func(c vfs.CrashConfig) {
		if failed != nil {
			return
		}
		crashes++
		if err := l.judge(disk.Crash(c)); err != nil {
			failed = fmt.Errorf("crash %v at operation %d: %w", c, ops, err)
		}
	}
	disk.OnOp(func(vfs.Op, string) {
		mu.Lock()
		defer mu.Unlock()
		ops++
		all := vfs.CrashConfigs(uint64(ops))
		switch {
		case long():
			for _, c := range all {
				crash(c)
				c.Journal = true
				crash(c)
			}
		case r.IntN(4) == 0 && (!testing.Short() || r.IntN(3) == 0):
			c := all[r.IntN(len(all))]
			c.Journal = r.IntN(2) == 0
			crash(c)
		}
	})
	err := l.run(disk)
	disk.OnOp(nil)
	mu.Lock()
	defer mu.Unlock()
	mustNil(t, errors.Join(failed, err))
	mustNil(t, l.judge(disk))
	t.Logf("%d operations, %d crashes", ops, crashes)
}

// TestState_FaultAtEveryOperation makes operations of a life fail, before or after they have happened. The
// life may end with the error; what it leaves on the disk is a member that goes on.
func TestState_FaultAtEveryOperation(t *testing.T) {
	t.Parallel()
	counting := faultfs.New(vfs.NewMem(), nil)
	mustNil(t, newStateLife(t, 12).run(counting))
	r := rand.New(rand.NewPCG(3, 4))
	faults := 0
	for k := int64(1); k <= counting.Ops(); k++ {
		if !long() {
			k += r.Int64N(60)
			if testing.Short() {
				k += 60
			}
		}
		faults++
		l := newStateLife(t, 12)
		disk := vfs.NewMem()
		fault := &faultfs.Fault{Err: syscall.EIO, After: r.IntN(2) == 0}
		err := l.run(faultfs.New(disk, faultfs.FailAt(k, fault)))
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatalf("fault at operation %d: %v", k, err)
		}
		for _, after := range []vfs.FS{disk.Crash(vfs.CrashConfig{Policy: vfs.DropAll}), disk} {
			if err := l.judge(after); err != nil {
				t.Fatalf("after a fault at operation %d (%v): %v", k, err, err)
			}
		}
	}
	t.Logf("%d operations, %d faults", counting.Ops(), faults)
}
