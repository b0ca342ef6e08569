package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
	"github.com/shaledb/shale/wal"
)

// Faults lives a life on a disk whose operations fail. It takes errors as they come, notes what each
// means for its writes, and wants to be told of a fault that mattered.
type Faults struct {
	*Life
	Fired   atomic.Int64     // faults so far
	Counts  map[vfs.Op]int64 // operations of the disk so far, but for those of the present opening
	Rebuilt int              // filters
	first   atomic.Value     // string: where the first loud fault was met, or the last other one
	loud    atomic.Bool      // a fault met what the store does not simply do again
	inTable atomic.Bool      // a fault met a table
	closing atomic.Bool      // Close ends background work
	excused atomic.Bool      // a fault met background work that Close was ending
	used    map[uint64]string

	mu   sync.Mutex
	told []error // what calls and events said
}

// NewFaults returns the life of a store on a disk without faults yet. Its options are those of the
// seed; each opening calls for another hash of filters than the one before. One in four encrypts its files.
func NewFaults(seed uint64, noMap bool) *Faults {
	f := &Faults{Life: NewLife(seed), Counts: make(map[vfs.Op]int64)}
	f.Encrypted = seed%4 == 1
	first := f.Options(0).Tuning.FilterHash
	options := f.Options
	f.Options = func(n int) shale.Options {
		o := options(n)
		o.Tuning.FilterHash = (first + shale.FilterHash(n)) % (shale.SipHash + 1)
		*KnobsOf(&o).NoMap = noMap
		o.OnEvent = func(e shale.Event) { _ = f.note(e.Err) }
		return o
	}
	f.Excuses = func(err error) bool { return f.note(err) != nil }
	return f
}

// IsInjected reports whether an error is, or comes from, one that tests inject.
func IsInjected(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) || IsRefusal(err)
}

// note keeps an error that the store has told of. It returns nil for errors that faults don't explain.
// The refusal of a gate explains an error, and is no fault.
func (f *Faults) note(err error) error {
	if err == nil || errors.Is(err, errDead) || IsRefusal(err) {
		return err
	}
	f.mu.Lock()
	f.told = append(f.told, err)
	f.mu.Unlock()
	if IsInjected(err) {
		return err
	}
	return nil
}

// Told returns what calls and events have said so far.
func (f *Faults) Told() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// First says where the first fault was met.
func (f *Faults) First() any { return f.first.Load() }

// Unheard reports whether faults were met of which the store has told nobody. Faults of work that
// Close was ending do not count, nor do those of what it does again in another way.
func (f *Faults) Unheard() bool {
	return f.loud.Load() && len(f.Told()) == 0 && !f.excused.Load()
}

// triedAgain reports whether the store answers err, which an operation with the given stack has met, by
// doing the same in another way, which reports what it meets: a read in the steps of a seek, one that may
// not wait, what an encrypted log takes that is to be used again, or is truncated, and the first of two attempts to begin
// a log on a full disk.
func triedAgain(err error, stack []byte) bool {
	by := func(fn string) bool { return bytes.Contains(stack, []byte(fn)) }
	return slices.ContainsFunc([]string{
		"sstable.(*Iterator).seekStep(", "sstable.(*Reader).tryBlock(",
		"crypt.(*FS).OpenReadWrite(", "crypt.(*file).Renew(", "crypt.(*file).Truncate(", // as OpOpenReadWrite and OpTruncate
	}, by) || errors.Is(err, syscall.ENOSPC) && by("logset.(*Set).create(")
}

// Fail makes operations fail; nil: none from now on.
func (f *Faults) Fail(fn faultfs.InjectFunc) {
	f.Inject = nil
	if fn != nil {
		f.Inject = func(op vfs.Op, name string, n int64) error {
			err := fn(op, name, n)
			if err != nil {
				f.Fired.Add(1)
				if !f.loud.Load() {
					stack := debug.Stack()
					f.first.Store(fmt.Sprintf("%v of %s by\n%s", op, name, stack))
					f.loud.Store(!triedAgain(err, stack))
				}
				if strings.HasSuffix(name, ".sst") {
					f.inTable.Store(true)
					f.excuseEnded()
				}
			}
			return err
		}
	}
	if f.FS != nil {
		f.FS.Inject(f.Inject)
	}
}

// excuseEnded excuses faults of work on tables if Close is ending it.
func (f *Faults) excuseEnded() {
	if f.closing.Load() && f.inTable.Load() {
		f.excused.Store(true)
	}
}

// count adds the operations of the opening that has ended, or failed.
func (f *Faults) count() {
	for _, op := range vfs.AllOps() {
		f.Counts[op] += f.FS.Count(op)
	}
}

// Run does the steps of the program. It stops when the store can't be opened any more. It returns
// what is wrong with the answers; errors that the faults explain are not.
func (f *Faults) Run(p Program) error {
	open, err := f.open()
	if !open || err != nil {
		return err
	}
	for i, s := range p.Steps {
		if err := f.Do(s); err != nil {
			return fmt.Errorf("step %d, %.300s: %w", p.places[i], s, err)
		}
		if f.DB == nil {
			return nil
		}
	}
	return nil
}

// open opens the store, in a few attempts, and finds out what it holds.
func (f *Faults) open() (open bool, err error) {
	f.used = make(map[uint64]string)
	for range 3 {
		err := f.Life.Open()
		if err == nil {
			return true, f.look()
		}
		f.count()
		if f.note(err) == nil {
			return false, err
		}
	}
	return false, nil
}

// look finds out what the store holds, and of the commits that failed which are there. If it can't
// be read, that stays open.
func (f *Faults) look() error {
	found, err := Read(f.DB)
	if err != nil {
		if f.note(err) == nil {
			return err
		}
		f.Blind = true
		return nil
	}
	f.Blind = false
	return f.Model.Found(f.Model.Claim().AllSafe(), found)
}

// shut ends the store, by Close or as the death of its process does.
func (f *Faults) shut(kill bool) error {
	if f.DB == nil {
		return f.checkClosed()
	}
	defer f.count()
	if kill {
		return f.die()
	}
	_, _ = f.store.LetGo(), f.side.LetGo()
	f.closing.Store(true)
	if m := f.DB.Metrics(); m.Compacting > 0 || m.Flushing > 0 {
		f.excuseEnded() // work that has met a fault and not yet told of it
	}
	err := f.DB.Close()
	f.closing.Store(false)
	f.DB = nil
	if err == nil {
		f.Model.AllSafe()
	} else if f.note(err) == nil {
		return err
	}
	return f.checkClosed()
}

// The ways in which a life with faults ends. In each the faults end too.
const (
	EndReopen    = iota // the store is closed on a healthy disk and opened again
	EndCut              // the power is cut while the store is in use
	EndReopenCut        // the store is closed on the bad disk, opened, used, and then the power is cut
	NumEndings
)

// End ends the life and checks what is found.
func (f *Faults) End(ending int, crash vfs.CrashConfig) error {
	claim := f.Model.Claim().AllSafe()
	var found *vfs.Mem
	switch ending {
	case EndReopen:
		f.Fail(nil)
		if err := f.recovered(); err != nil {
			return fmt.Errorf("with the faults gone: %w", err)
		}
		claim = f.Model.Claim().AllSafe()
	case EndCut:
		claim, found = f.Model.Claim(), f.Mem.Crash(crash)
		f.Fail(nil)
	}
	if err := f.shut(false); err != nil {
		return err
	}
	f.Fail(nil)
	if found != nil {
		f.Mem = found
	}
	if err := f.wantFound(claim); err != nil {
		return fmt.Errorf("with the faults gone: %w", err)
	}
	f.Trusting = true
	s := NewScript(f.Model.Now().Hash())
	s.Marked = true
	s.Serial = 1 << 20 // markers that no other write has
	s.Write(5, 5)
	s.Compact()
	for _, step := range s.Steps {
		before := len(f.Told())
		if err := f.Do(step); err != nil {
			return fmt.Errorf("with the faults gone: %s: %w", step, err)
		}
		if told := f.Told()[before:]; len(told) > 0 {
			return fmt.Errorf("with the faults gone: %s: %w", step, errors.Join(told...))
		}
	}
	claim = f.Model.Claim() // the last write was synced, and with it all before
	if ending == EndReopenCut {
		found = f.Mem.Crash(crash)
	}
	if err := f.shut(false); err != nil {
		return err
	}
	if ending == EndReopenCut {
		f.Mem = found
	}
	if err := f.wantFound(claim); err != nil {
		return fmt.Errorf("the second time: %w", err)
	}
	return f.shut(false)
}

// recovered has the open store write and flush on a healthy disk, and checks that it has in memory what
// it would have there without faults.
func (f *Faults) recovered() error {
	if f.DB == nil || f.Blind {
		return nil
	}
	if err := f.resume(); err != nil || f.DB.Err() != nil {
		return err // some failures only another Open ends
	}
	f.Trusting = true
	s := NewScript(f.Model.Now().Hash())
	s.Marked = true
	s.Serial = 1 << 19 // markers that no other write has
	s.Write(3, 1)
	s.Flush()
	for _, step := range s.Steps {
		if err := f.Do(step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return AsFresh(f.DB, Dir, f.Opts, func() vfs.FS { return f.encrypted(f.Mem.Crash(KeepAll)) })
}

// wantFound opens the store on a healthy disk and checks what it holds by the claim.
func (f *Faults) wantFound(c Claim) error {
	if err := f.Life.Open(); err != nil {
		return err
	}
	found, err := Read(f.DB)
	if err == nil {
		err = f.Model.Found(c, found)
	}
	if err == nil {
		err = f.DB.Verify(context.Background())
	}
	f.Blind = false
	return err
}

// meetBatches reads the logs that are there. A sequence number stands for one batch only, also if
// that has failed.
func (f *Faults) meetBatches() error {
	names, err := f.Mem.List(Dir)
	if err != nil {
		return err
	}
	disk := f.encrypted(f.Mem)
	var twice error
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || kind != base.FileLog {
			continue
		}
		header, err := wal.Identify(disk, Dir, num)
		if err != nil {
			continue // it is being made, or used again
		}
		_, _ = wal.Read(disk, Dir, num, header.StoreID, wal.ReadOptions{Known: -1, Salvage: true}, func(payload []byte) error {
			seq, _, err := shale.DecodeBatch(payload)
			if was, met := f.used[seq]; err == nil && met && was != string(payload) {
				twice = fmt.Errorf("%s: sequence number %d stands for a second batch: %.60q after %.60q", name, seq, payload, was)
			}
			f.used[seq] = string(payload)
			return nil
		})
	}
	return twice
}

// Script returns a program that makes a store do all that it does to its disk. Its steps are for f
// only.
func (f *Faults) Script(seed uint64) Program {
	s := NewScript(seed)
	s.Marked, s.Timed = true, true
	for part := range 3 {
		if part > 0 {
			s.Do("part", func(*Life) error {
				if err := f.shut(part == 2); err != nil {
					return err
				}
				_, err := f.open()
				return err
			})
		}
		s.Do("rebuild filters", func(*Life) error {
			if f.Opts.FilterBits < 0 {
				return nil
			}
			r, err := f.DB.Inspect().RebuildFilters(context.Background())
			f.Rebuilt += r.Rebuilt
			return f.excuse(err) // what is not rebuilt is as it was
		})
		f.addCheckpoint(s)
		s.Write(25, 4)
		s.Flush()
		s.Write(15, 0)
		s.Sync()
		s.Write(10, 3)
		s.Jump([]time.Duration{2 * time.Hour, -time.Hour, 25 * time.Hour}[part])
		f.addCheck(s)
		s.Compact()
		s.Do("verify", func(*Life) error { return f.excuse(f.DB.Verify(context.Background())) })
		s.Write(5, 0)
		if part != 0 {
			s.Ingest()
		}
		f.addCheckpoint(s)
		s.Do("resume", func(*Life) error { return f.resume() })
		s.Write(10, 5)
		f.addCheck(s)
		if part == 1 {
			s.Flush()
			s.Write(6, 0)
		}
	}
	return s.All()
}

// excuse returns nil for errors that the faults explain.
func (f *Faults) excuse(err error) error {
	if f.note(err) != nil {
		return nil
	}
	return err
}

// addCheckpoint adds a step that makes a checkpoint and opens it.
func (f *Faults) addCheckpoint(s *Script) {
	s.copies++
	dir := copyDir(s.copies)
	s.Do("checkpoint "+dir, func(*Life) error {
		if err := f.DB.Checkpoint(dir); err != nil {
			return f.excuse(err)
		}
		db, err := f.openSecond(dir, false)
		if err != nil {
			return f.excuse(err)
		}
		return f.excuse(db.Close())
	})
}

// addCheck adds a step that compares all that the open store says with the model.
func (f *Faults) addCheck(s *Script) {
	s.Do("check", func(*Life) error {
		if err := f.meetBatches(); err != nil {
			return err
		}
		found, err := Read(f.DB)
		if err != nil || f.Blind {
			return f.excuse(err)
		}
		return f.Model.Now().Diff(found)
	})
}

// resume leaves the state in which writes are refused, if it can. Writes that failed and were not
// seen are undone then.
func (f *Faults) resume() error {
	if f.DB.Err() == nil || f.Blind {
		return nil
	}
	if err := f.meetBatches(); err != nil { // the log that failed goes now
		return err
	}
	if err := f.DB.Resume(); err != nil {
		return f.excuse(err)
	}
	f.Model.Undo()
	return nil
}
