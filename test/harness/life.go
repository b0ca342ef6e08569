package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A Life is a store on a disk in memory, next to its model, and what happens to both: steps, openings
// with other options each time, crashes. One goroutine uses it.
type Life struct {
	Mem *vfs.Mem
	// Options gives the options of the nth opening.
	Options func(n int) shale.Options
	// Inject, if it is set, makes operations of the disk fail.
	Inject faultfs.InjectFunc
	// Excuses, if it is set, reports whether an error of the store is one that the life has caused.
	Excuses func(err error) bool

	// Encrypted says that the store encrypts its files, each time with another key. Now and then all get the same one first.
	Encrypted bool

	// Part is where the keys of the life are.
	Part Part

	// OnDisk, if it is set, is called with each disk that the store gets, before it is opened there.
	OnDisk func(mem *vfs.Mem)
	// Change, if it is set, changes the options that Options gives.
	Change func(o *shale.Options)
	// Look, if it is set, is called after each step.
	Look func(l *Life)

	DB    *shale.DB   // nil: not open
	FS    *faultfs.FS // what the store has for its disk, another one for each opening
	Model *Model
	Opts  shale.Options // of this opening

	// Trusting says that the gate of the store lets all writes pass.
	Trusting bool

	// Blind says that errors have hidden what the store holds, so that answers can't be compared.
	Blind bool

	Found, Asked int // of the keys that steps looked up, how many were there
	Refused      int // groups of writes that the gate has refused

	opened      int
	gate        Gate
	clock       clock    // the system's
	shown       clock    // the time of the store, for others next to it
	disk        *vfs.Mem // that of the last opening
	real        *Real
	store, side Side // those of the store, and of the model
	follower    follower
	copied      feedCopy
}

// NewLife returns the life of a store that is not open yet, with drawn options.
func NewLife(seed uint64) *Life {
	l := &Life{
		Mem:     vfs.NewMem(),
		Model:   new(Model),
		Options: func(n int) shale.Options { return DrawSeeded(nil, seed, uint64(n)) },
	}
	l.clock.ms.Store(Epoch.UnixMilli())
	l.setTime(Epoch.UnixMilli())
	l.Model.noEarlier()
	return l
}

// Open opens the store. What it holds is not looked at.
func (l *Life) Open() error {
	l.Opts = l.Options(l.opened)
	if l.Change != nil {
		l.Change(&l.Opts)
	}
	if l.OnDisk != nil && l.disk != l.Mem {
		l.OnDisk(l.Mem)
	}
	l.disk = l.Mem
	l.opened++
	l.FS = faultfs.New(l.Mem, l.Inject)
	l.Opts.FS = l.encrypted(moodyFS{l.FS})
	if c, ok := l.Opts.FS.(*crypt.FS); ok && l.opened%4 == 3 {
		if err := c.Rekey(Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("rekey: %w", err)
		}
	}
	l.clock.ms.Store(max(l.clock.ms.Load(), l.Model.floor))
	setClock(&l.Opts, l.clock.now)
	if l.Opts.Shipping.Gate != nil {
		l.Opts.Shipping.Gate = l.gate.Over(l.Opts.Shipping.Gate)
	}
	db, err := shale.Open(Dir, &l.Opts)
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	l.DB, l.real = db, newReal(db, l.Part)
	l.copied.whole = l.copied.whole && l.Opts.KeepLog >= keepsAll
	l.real.Open = l.openSecond
	l.Model.Durability = l.Opts.Durability
	l.store, l.side = Side{Store: l.real}, Side{Store: l.Model}
	if err := l.begun(); err != nil {
		return err
	}
	if l.opened == 1 {
		return l.Part.guard(db)
	}
	return nil
}

// encrypted returns the file system of a store on fs.
func (l *Life) encrypted(fs vfs.FS) vfs.FS {
	if !l.Encrypted {
		return fs
	}
	keys := crypt.Keys{{ID: 1, Secret: bytes.Repeat([]byte{1}, 32)}, {ID: 2, Secret: bytes.Repeat([]byte{2}, 32)}}
	if rand.IntN(2) == 0 { // files of one store have either
		slices.Reverse(keys)
	}
	c, err := crypt.New(fs, keys)
	if err != nil {
		panic(err) // the keys are as they must be
	}
	return c
}

// openSecond opens another store on the same disk, or the same store read-only, with other options.
func (l *Life) openSecond(dir string, readOnly bool) (*shale.DB, error) {
	o := l.Options(1000 + l.opened)
	o.FS, o.ReadOnly, o.Exist = l.Opts.FS, readOnly, shale.MustExist
	Standing(&o, time.UnixMilli(l.shown.ms.Load()))
	if c := l.Model.copies[dir]; c != nil {
		Standing(&o, time.UnixMilli(c.clock()))
	}
	if readOnly {
		o.Tuning.MaxOpenFiles = 0 // a scan needs its tables, which compactions remove meanwhile; Follow has few
	}
	return shale.Open(dir, &o)
}

// Do does a step by the model and by the store, and compares the answers.
func (l *Life) Do(s Step) error {
	if l.Look != nil {
		defer func() {
			if l.DB != nil {
				l.Look(l)
			}
		}()
	}
	if s.Life != nil {
		return s.Life(l)
	}
	if s.Name == "lookup" {
		l.Asked++
	}
	l.Model.begin()
	want := s.Do(&l.side)
	l.real.Err, l.real.Wrote = nil, 0
	chance, refusals := l.chance(s), l.gate.Refused.Load()
	l.armGate(chance)
	got := s.Do(&l.store)
	l.gate.Pass()
	if l.gate.Refused.Load() > refusals && l.Excuses == nil {
		return l.refused(s, chance)
	}
	if err := l.real.Err; err != nil && l.Excuses != nil && l.Excuses(err) {
		l.failed()
		return nil
	}
	if l.Blind {
		l.Model.Acknowledge()
		return nil
	}
	var err error
	if s.Fits != nil {
		err = s.Fits(l.Model.Now(), got)
	} else if got != want {
		err = difference(got, want)
	}
	if err != nil {
		return errors.Join(err, l.real.Err)
	}
	if s.Name == "lookup" && strings.Contains(got, "Has true") {
		l.Found++
	}
	l.Model.Acknowledge()
	return nil
}

// failed tells the model of a step that has failed. Whether readers see the commit that failed, the
// store must say itself.
func (l *Life) failed() {
	marker := l.Model.Failed(l.real.Wrote)
	if marker == "" {
		return
	}
	switch seen, err := l.real.Has([]byte(marker)); {
	case err != nil:
		_ = l.Excuses(err) // this call has said it
		l.Blind = true
	case seen:
		l.Model.Seen(marker)
	}
}

// difference says where two answers differ.
func difference(got, want string) error {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	around := func(s string) string { return s[max(0, at-80):min(len(s), at+160)] }
	return fmt.Errorf("the answer differs from the model's at byte %d:\n%s\nThe model says:\n%s", at, around(got), around(want))
}

// LetGo closes the iterators and snapshots of both sides.
func (l *Life) LetGo() error {
	want, got := l.side.LetGo(), l.store.LetGo()
	if got != want {
		return difference(got, want)
	}
	return nil
}

// Close closes the store. Everything is durable then.
func (l *Life) Close() error {
	if err := l.LetGo(); err != nil {
		return err
	}
	err := l.DB.Close()
	l.DB = nil
	if err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	l.Model.AllSafe()
	return l.checkClosed()
}

// checkClosed checks that a store which was closed has no files open.
func (l *Life) checkClosed() error {
	if n := l.Mem.OpenFiles() - l.follower.open(l.Mem); n != 0 {
		return fmt.Errorf("%d files or locks are open after Close", n)
	}
	return nil
}

// die ends the store as the death of its process does.
func (l *Life) die() error {
	l.FS.Inject(dead)
	_, _ = l.store.LetGo(), l.side.LetGo()
	Die(l.DB, l.FS)
	l.DB = nil
	return l.checkClosed()
}

// Crash makes the life go on with the disk as a crash leaves it.
func (l *Life) Crash(c vfs.CrashConfig) error {
	l.Mem.OnOp(nil)
	after := l.Mem.Crash(c)
	if err := errors.Join(l.die(), l.follower.close()); err != nil {
		return err
	}
	l.Mem, l.copied.whole = after, false
	if err := l.reopen(l.Model.Claim()); err != nil {
		return fmt.Errorf("after a crash with %v: %w", c, err)
	}
	return nil
}

// Kill ends the store as the death of its process does, and opens it. No write is lost, synced or
// not: the system has what was written, although perhaps not on disk.
func (l *Life) Kill() error {
	if err := l.die(); err != nil {
		return err
	}
	if err := l.reopen(l.Model.Claim().AllSafe()); err != nil {
		return fmt.Errorf("after the death of the process: %w", err)
	}
	return nil
}

// reopen opens the store, which must hold what the claim says.
func (l *Life) reopen(c Claim) error {
	if err := l.Open(); err != nil {
		return err
	}
	found, err := l.Part.read(l.DB)
	if err != nil {
		return err
	}
	return l.Model.Found(c, found)
}

// Reopen closes the store and opens it with other options.
func (l *Life) Reopen() error {
	if err := l.Close(); err != nil {
		return err
	}
	if err := l.reopen(l.Model.Claim()); err != nil {
		return fmt.Errorf("after reopening: %w", err)
	}
	return nil
}

// End verifies the store, closes it, and opens it a last time to see that all is there.
func (l *Life) End() error {
	if err := l.DB.Verify(context.Background()); err != nil {
		return fmt.Errorf("Verify: %w", err)
	}
	if err := l.Reopen(); err != nil {
		return err
	}
	return errors.Join(Strays(l.DB, l.Mem, Dir), l.follower.close(), l.Close())
}

// Abandon closes the store of a life that has failed.
func (l *Life) Abandon() {
	if l.DB != nil {
		_ = l.DB.Close() // the failure is reported already
	}
	_ = l.follower.close() // likewise
}

// Strays returns an error if a file lies in the store's directory that is not part of the store,
// or if one is missing that is. Compactions may be about to remove some, and the next log may be
// in the making, so it waits for that. It lets go of the logs that the program holds, but not of those for feeds.
func Strays(db *shale.DB, fs vfs.FS, dir string) error {
	var err error
	shale.ShippingOf(db).HoldLogs(0)
	for range 2000 {
		if err = straysNow(db, fs, dir); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

func straysNow(db *shale.DB, fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	needed := make(map[string]bool)
	for _, t := range db.Inspect().Tables() {
		needed[base.TableName(base.FileNum(t.Number))] = true
		if t.FilterFile != "" {
			needed[t.FilterFile] = true
		}
	}
	logs := LogsOf(db)
	prepared, kept := logs.Spare()
	others := map[base.FileType]int{base.FileLog: logs.Count() + kept + logs.Orphans(), base.FileManifest: 1, base.FileTemp: 0}
	if prepared {
		others[base.FileLog]++
	}
	for _, name := range names {
		kind, _, ok := base.ParseFileName(name)
		switch {
		case !ok:
			return fmt.Errorf("%s is left over", name)
		case kind == base.FileTable || kind == base.FileFilter:
			if !needed[name] {
				return fmt.Errorf("%s is left over", name)
			}
			delete(needed, name)
		default:
			others[kind]--
		}
	}
	for name := range needed {
		return fmt.Errorf("%s is missing", name)
	}
	if n := others; n[base.FileLog] != 0 || n[base.FileManifest] != 0 || n[base.FileTemp] != 0 {
		return fmt.Errorf("the store needs %d other logs and %d other manifests than are in %q", n[base.FileLog], n[base.FileManifest], names)
	}
	return nil
}

// WaitIdle waits until nothing is left to flush, or to compact if the store does so by itself.
func WaitIdle(db *shale.DB) error {
	compacts := optionsOf(db).CompactionWorkers > 0
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if m := db.Metrics(); m.Flushing == 0 && m.Compacting == 0 && !unflushed(db) && (SchedulerOf(db).Idle() || !compacts) {
			return nil
		}
	}
	return errors.New("flushes and compactions do not come to an end")
}

// Levels returns how many levels have tables.
func Levels(db *shale.DB) (n int) {
	for _, l := range db.Metrics().Levels {
		n += min(l.Tables, 1)
	}
	return n
}

// LifeOperations are what programs do with a store that is not shared with other clients.
var LifeOperations = []Operation{
	{"reopen", 2, func(*Source) Step { return Step{Name: "reopen", Life: (*Life).Reopen} }},
	{"follow", 6, func(*Source) Step { return Step{Name: "follow", Life: (*Life).Follow} }},
	{"feed", 6, drawFeed},
	{"clock", 6, drawClock},
	{"kill", 1, func(*Source) Step { return Step{Name: "kill", Life: (*Life).Kill} }},
	{"crash", 2, func(s *Source) Step {
		configs := CrashConfigs(s.Uint64())
		c := configs[s.IntN(len(configs))]
		return Step{Name: "crash", Args: fmt.Sprint(c), Life: func(l *Life) error { return l.Crash(c) }}
	}},
}

// KeepAll is the crash that loses nothing, like the death of a process.
var KeepAll = vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep}

// CrashConfigs returns all ways to crash.
func CrashConfigs(seed uint64) []vfs.CrashConfig {
	posix := vfs.CrashConfigs(seed)
	all := posix[:len(posix):len(posix)]
	for _, c := range posix {
		c.Journal = true
		all = append(all, c)
	}
	return all
}
