package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A script writes the life of a store to fsys. It begins a new manifest after some edits, and
// after each error. It notes how far it has come.
type script struct {
	acked     int // number of edits that are durable
	attempted int // number of edits that may be durable
	created   bool
	finished  bool
}

// run returns an error if it could not get to its end.
func (s *script) run(fsys vfs.FS, all []*State) error {
	num := base.FileNum(1)
	var l *Log
	create := func(at int) error {
		var err error
		for range 3 {
			l, err = Create(fsys, dir, num, all[at])
			num += 100
			if err == nil {
				s.created = true
				s.acked = at
				return nil
			}
		}
		return err
	}
	if err := create(0); err != nil {
		return err
	}
	for i, e := range life() {
		sync := i%3 != 1
		s.attempted = i + 1
		err := l.Append(e, sync)
		if err == nil && sync {
			s.acked = i + 1
		}
		if err != nil || i == 3 {
			if again := l.Append(&Edit{NextFileNum: 1000}, true); err != nil && again == nil {
				return fmt.Errorf("after %v an append succeeds", err)
			}
			mustClose(l)
			if err := create(i + 1); err != nil {
				return err
			}
		}
	}
	if err := l.Finish(); err != nil {
		mustClose(l)
		return err
	}
	s.finished = true
	s.acked = len(life())
	return l.Close()
}

// mustClose closes a log whose errors have been seen already.
func mustClose(l *Log) { _ = l.Close() }

// judge loads what a crash has left and returns what is wrong with it.
func (s *script) judge(fsys vfs.FS, all []*State) error {
	got, err := Load(fsys, dir)
	if err != nil {
		if !s.created && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if got.NextFileNum <= got.ManifestNum {
		return fmt.Errorf("next file number %d is not above that of the manifest, %d", got.NextFileNum, got.ManifestNum)
	}
	for i := s.acked; i <= s.attempted; i++ {
		want := *all[i]
		want.NextFileNum = got.NextFileNum
		if describe(got) == describe(&want) {
			if s.finished && got.torn {
				return errors.New("torn after Finish")
			}
			return nil
		}
	}
	return fmt.Errorf("no state between edit %d and %d:\n%s", s.acked, s.attempted, describe(got))
}

// TestCrash_AtEveryOperation crashes the disk before each operation of the script, in every
// way.
func TestCrash_AtEveryOperation(t *testing.T) {
	all := states(t)
	m := newMem(t)
	var s script
	var mu sync.Mutex // a new manifest and the temporary file of CURRENT are synced at the same time
	crashes, ops := 0, 0
	check := func() {
		for seed := range uint64(3) {
			for _, c := range vfs.CrashConfigs(seed + uint64(ops)*100) {
				for _, c.Journal = range []bool{false, true} {
					crashes++
					if err := s.judge(m.Crash(c), all); err != nil {
						t.Fatalf("crash %v at operation %d: %v", c, ops, err)
					}
				}
			}
		}
	}
	m.OnOp(func(op vfs.Op, name string) {
		mu.Lock()
		defer mu.Unlock()
		ops++
		check()
	})
	mustNil(t, s.run(m, all))
	m.OnOp(nil)
	check()
	t.Logf("%d operations, %d crashes", ops, crashes)
}

// TestFault_AtEveryOperation fails each operation of the script, in several
// ways, and crashes the disk afterwards.
func TestFault_AtEveryOperation(t *testing.T) {
	all := states(t)
	count := faultfs.New(newMem(t), nil)
	mustNil(t, new(script).run(count, all))
	ways := map[string]func(k int64) faultfs.InjectFunc{
		"once":  func(k int64) faultfs.InjectFunc { return faultfs.FailAt(k, errIO) },
		"on":    func(k int64) faultfs.InjectFunc { return faultfs.FailFrom(k, errIO) },
		"full":  func(k int64) faultfs.InjectFunc { return faultfs.FullFrom(k, syscall.ENOSPC) },
		"after": func(k int64) faultfs.InjectFunc { return faultfs.FailAt(k, &faultfs.Fault{Err: errIO, After: true}) },
		"short": func(k int64) faultfs.InjectFunc { return faultfs.FailAt(k, &faultfs.Fault{Err: errIO, Short: true}) },
	}
	for way, inject := range ways {
		for k := int64(1); k <= count.Ops(); k++ {
			m := newMem(t)
			var s script
			err := s.run(faultfs.New(m, inject(k)), all)
			if err != nil && !errors.Is(err, errIO) && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s, operation %d: %v", way, k, err)
			}
			if n := m.OpenFiles(); n != 0 {
				t.Errorf("%s, operation %d: %d files left open", way, k, n)
			}
			for _, c := range vfs.CrashConfigs(uint64(k)) {
				if err := s.judge(m.Crash(c), all); err != nil {
					t.Errorf("%s, operation %d, then crash %v: %v", way, k, c, err)
				}
			}
		}
	}
}
