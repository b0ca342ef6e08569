package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A logMoment is what a crash may find: the log before or after the call under way, and the term.
type logMoment struct {
	call    string
	allowed []logModel // in order: before, in between, after
	terms   [2]uint64  // the stable store's, before and after
}

// check compares a store that was opened after a crash.
func (m *logMoment) check(s *LogStore) (now logModel, err error) {
	for _, allowed := range m.allowed {
		if err = checkLog(s, allowed); err == nil {
			now = allowed
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("during %s the log is none of %d allowed ones, the last of them: %w", m.call, len(m.allowed), err)
	}
	term, err := s.GetUint64([]byte("CurrentTerm"))
	if err != nil && err != ErrKeyNotFound {
		return nil, err
	}
	if term != m.terms[0] && term != m.terms[1] {
		return nil, fmt.Errorf("during %s the term is %d, want %d or %d", m.call, term, m.terms[0], m.terms[1])
	}
	return now, nil
}

// between lists the logs that a crash may leave between two: with batches, a StoreLogs may have done a part.
func between(before, after logModel, batches bool) []logModel {
	all := []logModel{before}
	if batches && len(before) > 0 && len(after) > 0 && before[0].Index == after[0].Index {
		for n := len(before) + 1; n < len(after); n++ {
			all = append(all, after[:n])
		}
	} else if batches {
		for n := 1; n < len(after); n++ { // behind a gap, or in an empty log
			all = append(all, after[:n])
		}
	}
	return append(all, after)
}

// TestLogStore_PowerCut cuts the power at each operation of random lives, under all policies. What was
// acknowledged is there, a call that was under way has happened or not, and there is no hole. Then the
// store goes on, and its power is cut again.
func TestLogStore_PowerCut(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	share := testenv.ShareOf(t, seed, 0.02)
	t.Log(share)
	cuts := 0
	for life := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, life))
		limits := defaultLogLimits
		batches := life%2 == 1
		if batches {
			limits = logLimits{batchBytes: 300, batchDelete: 4}
		}
		mem := vfs.NewMem()
		var mu sync.Mutex
		moment := logMoment{call: "Open", allowed: []logModel{nil}}
		begin := func(m logMoment) {
			mu.Lock()
			defer mu.Unlock()
			moment = m
		}
		type cut struct {
			disk   *vfs.Mem
			config vfs.CrashConfig
			moment logMoment
		}
		var found []cut
		mem.OnOp(func(vfs.Op, string) {
			mu.Lock()
			defer mu.Unlock()
			for i, c := range vfs.CrashConfigs(seed) {
				if share.Takes(life<<32 + uint64(mem.Ops())*100 + uint64(i)) {
					c.Journal = (mem.Ops()+int64(i))%2 == 0
					found = append(found, cut{mem.Crash(c), c, moment})
				}
			}
		})
		s := openLog(t, mem)
		s.limits = limits
		var m logModel
		term := uint64(0)
		for step := range uint64(60) {
			if rnd.IntN(6) == 0 {
				begin(logMoment{"SetUint64", []logModel{m}, [2]uint64{term, step}})
				mustNil(t, s.SetUint64([]byte("CurrentTerm"), step))
				term = step
				continue
			}
			call, after, name := m.next(rnd, step)
			begin(logMoment{name, between(m, after, batches), [2]uint64{term, term}})
			mustNil(t, call(s))
			m = after
		}
		begin(logMoment{"Close", []logModel{m}, [2]uint64{term, term}})
		mustCloseLog(t, s)
		cuts += len(found)
		for _, c := range found {
			if err := goOnAfter(c.disk, &c.moment, seed); err != nil {
				t.Fatalf("life %d, %v: %v", life, c.config, err)
			}
		}
	}
	t.Logf("%d power cuts", cuts)
}

// goOnAfter opens the store that a crash has left, checks it, goes on, and cuts the power again.
func goOnAfter(disk *vfs.Mem, moment *logMoment, seed uint64) error {
	s, err := tryOpenLog(disk)
	if err != nil {
		return err
	}
	m, err := moment.check(s)
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	rnd := rand.New(rand.NewPCG(seed, uint64(len(m))))
	for range 5 {
		call, after, name := m.next(rnd, 1000)
		if err := call(s); err != nil {
			return fmt.Errorf("%s after a crash during %s: %w", name, moment.call, err)
		}
		m = after
	}
	again := disk.Crash(vfs.CrashConfig{Policy: vfs.DropAll})
	err = errors.Join(checkLog(s, m), s.db.Close())
	if err != nil {
		return err
	}
	if s, err = tryOpenLog(again); err != nil {
		return err
	}
	if err := checkLog(s, m); err != nil {
		return fmt.Errorf("after a second crash: %w", errors.Join(err, s.db.Close()))
	}
	return s.db.Close()
}

// failing opens a log store with entries 1 to 50 on a disk that fails the k-th write from then on.
func failing(t *testing.T, k int64) (*LogStore, *vfs.Mem, *faultfs.FS) {
	t.Helper()
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, nil)
	s := openLog(t, fsys)
	s.limits = logLimits{batchBytes: 600, batchDelete: 5}
	mustStore(t, s, entries(1, 50, 1)...)
	fsys.Inject(faultfs.FailAt(k, syscall.EIO, vfs.OpSync))
	return s, mem, fsys
}

// TestLogStore_FailedPartStaysUndone fails one of the batches of a call that has several. The parts before it are in
// the store, and must not come back behind the entries that are stored next.
func TestLogStore_FailedPartStaysUndone(t *testing.T) {
	t.Parallel()
	for k := int64(2); k < 6; k++ {
		for _, first := range []uint64{51, 1001} { // the second with a gap
			s, mem, fsys := failing(t, k)
			if err := s.StoreLogs(entries(first, first+40, 2)); !errors.Is(err, syscall.EIO) {
				t.Fatalf("StoreLogs = %v, want EIO", err)
			}
			mustHave(t, s, entries(1, 50, 1)...)
			fsys.Inject(nil)
			mustNil(t, s.db.Resume())
			want := append(entries(1, 50, 1), entry(51, 3))
			mustStore(t, s, entry(51, 3))
			mustHave(t, s, want...)
			mustCloseLog(t, s)
			for _, c := range vfs.CrashConfigs(1) {
				s := openLog(t, mem.Crash(c))
				if err := checkLog(s, want); err != nil {
					t.Errorf("sync %d fails, entries from %d: after a crash %v: %v", k, first, c, err)
				}
				mustCloseLog(t, s)
			}
		}
	}
}

// TestLogStore_FailedWriteStaysUndone fails each operation of random lives once. The call returns an
// error, and the log is as it was before. When the store takes writes again, the log goes on with other
// entries. Those of the failed call do not come back: not behind the new ones, and not after a crash.
func TestLogStore_FailedWriteStaysUndone(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	share := testenv.ShareOf(t, seed, 0.02)
	t.Log(share)
	type fault struct {
		life uint64
		k    int64
		err  error
	}
	var cases []fault
	for life := range uint64(6) {
		for k := int64(20); k < 400; k++ {
			for _, err := range []error{syscall.EIO, syscall.ENOSPC, &faultfs.Fault{Err: syscall.EIO, After: true},
				&faultfs.Fault{Err: syscall.ENOSPC, Short: true}} {
				if share.Takes(uint64(len(cases))<<20 + life<<10 + uint64(k)) {
					cases = append(cases, fault{life, k, err})
				}
			}
		}
	}
	testenv.Sweep(t, cases, func(_ int, c fault) error {
		mem := vfs.NewMem()
		fsys := faultfs.New(mem, nil)
		s, err := tryOpenLog(fsys)
		if err != nil {
			return err
		}
		if c.life%2 == 1 {
			s.limits = logLimits{batchBytes: 300, batchDelete: 1 << 20}
		}
		fsys.Inject(faultfs.FailAt(c.k, c.err, vfs.OpWrite, vfs.OpMapWrite, vfs.OpSync, vfs.OpCreate, vfs.OpRename, vfs.OpPreallocate))
		rnd := rand.New(rand.NewPCG(seed, c.life))
		var m logModel
		failed := 0
		for step := range uint64(80) {
			call, after, name := m.next(rnd, step)
			err := call(s)
			if err == nil {
				m = after
			} else {
				failed++
				if !errors.Is(err, c.err) && !errors.Is(err, shale.ErrReadOnly) {
					return fmt.Errorf("%s = %w", name, err)
				}
				if resume := s.db.Resume(); resume != nil && !errors.Is(resume, shale.ErrReadOnly) {
					return resume
				}
			}
			if err := checkLog(s, m); err != nil {
				return fmt.Errorf("step %d, after %s (%d calls have failed): %w", step, name, failed, err)
			}
		}
		// A crash may bring back what a failed call has written last, and a fault behind DeleteRange is not told. So the last call is one
		// that works.
		fsys.Inject(nil)
		last := entries(m.last()+1, m.last()+1, 80)
		if err = s.StoreLogs(last); errors.Is(err, shale.ErrReadOnly) && s.db.Resume() == nil {
			err = s.StoreLogs(last)
		}
		if err != nil {
			return err
		}
		m = append(m[:len(m):len(m)], last...)
		var cuts []*vfs.Mem
		for _, config := range vfs.CrashConfigs(seed) {
			cuts = append(cuts, mem.Crash(config))
		}
		if err := s.db.Close(); err != nil && failed == 0 {
			return err
		}
		for i, cut := range cuts {
			s, err := tryOpenLog(cut)
			if err != nil {
				return err
			}
			if err := errors.Join(checkLog(s, m), s.db.Close()); err != nil {
				return fmt.Errorf("after a crash %v: %w", vfs.CrashConfigs(seed)[i], err)
			}
		}
		return nil
	})
}
