package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
)

// The state of a member is a shale store in a directory state-K next to the log. It is written
// without syncs, for the log is what makes writes durable. Each batch that goes into it also sets
// reservedKey to the position of its last command. So whatever a power cut leaves of the store,
// it is the state after some command, it says after which, and raft sends the rest again.
//
// A snapshot from the leader becomes state-(K+1), built under another name and then renamed. The
// highest state-K counts; others, and names that end in ".tmp", are swept when the member starts.
//
// When the member starts, the state has to have everything up to raft's newest snapshot, because
// raft goes on behind it:
//
//   - A state that is behind the newest snapshot is replaced by it.
//   - A state that is damaged is replaced by the newest snapshot of which every block is whole: tables
//     that state and snapshots share are damaged in both.
//   - Snapshots that turn out to be damaged are dropped, and raft goes on behind an older one, or
//     begins with the first entry of the log.
//
// settle then compares log, snapshots and state. If they do not fit together any more, the member
// has lost what it had acknowledged, and must not go on under its name.
type state struct {
	// Constant after openState.
	fs    vfs.FS
	dir   string // the member's
	opts  shale.Options
	log   *LogStore
	snaps *snapshots
	fail  func(error)
	open  func(dir string, o *shale.Options) (*shale.DB, func() error, error) // see Options.OpenStore
	clock func() time.Time

	// Owned by raft's goroutine of the state machine, and before raft starts by the caller of settle.
	batch shale.Batch
	next  int // the number of the next state-K

	// current is what readers read. Only the state machine's goroutine replaces it.
	current atomic.Pointer[stateStore]

	behind atomic.Pointer[moment] // see leaderTime; written as current is

	mu    sync.Mutex    // protects moved and ended, and changes of current and its index
	moved chan struct{} // closed when index has changed; nil while nobody waits
	ended error         // why the index does not change any more

	closing chan struct{}
	wg      sync.WaitGroup // stores that wait for their readers
}

const (
	// Part of the format of a member's directory.
	statePrefix  = "state-"
	damageSuffix = ".damaged" // state-K.damaged says that state-K is to be replaced
)

// A stateStore is one store of the state. Readers pin it while they use it.
//
// Its life: open with one pin of the state's own, current, replaced, unpinned, closed when the last
// reader has let it go, and removed.
type stateStore struct {
	db     *shale.DB
	close  func() error // closes db
	number int
	path   string
	at     position // of the last command; owned by the state machine's goroutine

	digests digests // of the commands
	time    stateTime

	index atomic.Uint64 // all commands up to this index are in the store, whose last one may be lower

	pins atomic.Int64 // readers, and one of the state's own until it has another store
}

// pin keeps the store open. It returns false if the store is being closed: then another one is
// current already.
func (s *stateStore) pin() bool {
	for n := s.pins.Load(); n > 0; n = s.pins.Load() {
		if s.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// unpin gives up a pin. Without a store it does nothing.
func (s *stateStore) unpin() {
	if s != nil {
		s.pins.Add(-1)
	}
}

// openState opens the state of the member in dir, or makes an empty one. fail is called, once, when
// a command could not be applied.
//
// A state that does not open because of damage is no reason to give up, since the log and the
// snapshots have everything that it had. Any other error, such as a lack of descriptors, ends the
// start: it would pass.
func openState(dir string, o *Options, log *LogStore, snaps *snapshots, fail func(error)) (*state, error) {
	fsys := o.FS
	s := &state{fs: fsys, dir: dir, opts: *o.Store, log: log, snaps: snaps, fail: fail, open: o.OpenStore, clock: o.clock, closing: make(chan struct{})}
	s.opts.FS, s.opts.Durability = fsys, shale.SyncManual
	if err := sweepTemps(fsys, dir, statePrefix); err != nil {
		return nil, err
	}
	number, damaged, err := newestState(fsys, dir)
	if err != nil {
		return nil, err
	}
	s.next = number + 1
	var have *stateStore
	if number > 0 && !damaged {
		have, err = s.openStore(number)
		switch {
		case isDamage(err):
			damaged = true
		case err != nil:
			return nil, err
		}
	}
	if damaged {
		// Until settle has found the replacement good enough, the next start has to look as closely.
		if err := s.mark(statePath(s.dir, s.next)); err != nil {
			return nil, err
		}
	}
	if err := s.begin(have, damaged); err != nil {
		return nil, err
	}
	return s, nil
}

// has reports whether a state at this position has all that a snapshot has. It must not be behind the
// snapshot, and both must lie on one history: one that goes on behind the snapshot does not go back to an
// earlier term, and one that ends within it ends with the snapshot's own last command.
func (p position) has(snap *snapshot) bool {
	return p == snap.state || p.index > snap.meta.Index && p.term >= snap.meta.Term
}

// begin chooses the state to start with: have, if it is not nil and has all of the newest snapshot,
// else the newest snapshot that is whole, else an empty one.
func (s *state) begin(have *stateStore, damaged bool) error {
	for snap := s.snaps.newest(); snap != nil && (have == nil || !have.at.has(snap)); snap = s.snaps.newest() {
		var err error
		if damaged {
			_, err = positionIn(s.fs, snap.store(), true)
		}
		var made *stateStore
		if err == nil {
			made, err = s.build(snap)
		}
		switch {
		case err == nil:
			old := have
			have = made
			if old != nil {
				if err := old.close(); err != nil {
					return errors.Join(err, made.close())
				}
			}
		case isDamage(err):
			s.snaps.drop(snap)
		default:
			if have != nil {
				err = errors.Join(err, have.close())
			}
			return err
		}
	}
	if have == nil {
		var err error
		if have, err = s.openStore(s.next); err != nil {
			return err
		}
		s.next++
	}
	s.current.Store(have)
	if snap := s.snaps.newest(); snap != nil {
		s.advance(have, snap.meta.Index) // what lies between the two was no command
	}
	return nil
}

// newestState returns the number of the state that counts, 0 if there is none, and whether it was
// found damaged in an earlier life.
func newestState(fsys vfs.FS, dir string) (number int, damaged bool, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, false, err
	}
	marked := 0
	for _, name := range names {
		if n, mark, ok := parseStateName(name); ok && mark {
			marked = max(marked, n)
		} else if ok {
			number = max(number, n)
		}
	}
	return number, marked > 0 && marked >= number, nil
}

// parseStateName returns K of state-K and state-K.damaged, and whether it is the latter.
func parseStateName(name string) (number int, mark, ok bool) {
	text, ok := strings.CutPrefix(name, statePrefix)
	text, mark = strings.CutSuffix(text, damageSuffix)
	number, err := strconv.Atoi(text)
	return number, mark, ok && err == nil && number > 0
}

// sweepOthers removes all states but one.
func (s *state) sweepOthers(number int) error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if n, _, ok := parseStateName(name); !ok || n == number {
			continue
		}
		if err := s.discard(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a state in a way that it stops counting in one step.
func (s *state) discard(path string) error {
	err := removeAs(s.fs, path, path+tempSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a state that was replaced goes next to all others, as soon as nobody reads it
	}
	return err
}

// statePath returns the directory of a member's state-K.
func statePath(dir string, number int) string {
	return filepath.Join(dir, statePrefix+strconv.Itoa(number))
}

// openStore opens state-K, or makes it, and reads its position.
func (s *state) openStore(number int) (*stateStore, error) {
	o, path := s.opts, statePath(s.dir, number)
	st := &stateStore{number: number, path: path}
	o.Shipping.Clock = func() time.Time { return time.UnixMilli(st.time.now.Load()) }
	db, closeDB, err := s.open(path, &o)
	if err != nil {
		return nil, err
	}
	st.db, st.close = db, closeDB
	st.pins.Store(1)
	if st.at, err = readPosition(db); err == nil {
		st.digests.now, err = readDigest(db, st.at)
	}
	if err == nil {
		err = st.time.read(db)
	}
	if err != nil {
		return nil, errors.Join(err, closeDB())
	}
	st.index.Store(st.at.index)
	s.noteTime(st.time.now.Load())
	return st, nil
}

// build makes the next state-K out of a snapshot, and opens it. Nothing is left of it after an error.
//
// Tables are hard links to those of the snapshot, so the state costs little room, and the time of a
// copy only where links can't be made. The store is opened under its final name, because it must
// not be renamed later.
func (s *state) build(snap *snapshot) (*stateStore, error) {
	path := statePath(s.dir, s.next)
	temp := path + tempSuffix
	if err := removeTree(s.fs, temp); err != nil {
		return nil, err
	}
	err := cloneStore(s.fs, snap.store(), temp)
	if err == nil {
		err = s.fs.Rename(temp, path)
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	var st *stateStore
	if err == nil {
		st, err = s.openStore(s.next)
	}
	if err == nil && st.at != snap.state {
		err = base.Corruption(snap.meta.ID, -1, "snapshot", fmt.Errorf("it holds entry %d instead of %d", st.at.index, snap.state.index))
		err = errors.Join(err, st.close())
	}
	if err != nil {
		// Where the rename was made it is undone, so that the state before counts.
		_ = removeTree(s.fs, temp)
		if _, serr := s.fs.Stat(path); serr == nil {
			_ = s.discard(path)
		}
		return nil, err
	}
	s.next++
	return st, nil
}

// retire closes a store that has been replaced, once its readers are done, and removes it. Iterators
// do not pin it, so their number is asked for, after that of the pins: what makes an iterator pins the
// store meanwhile.
//
// It waits by looking, since readers only count. Close of the member does not wait for iterators
// that a caller has forgotten.
func (s *state) retire(old *stateStore) {
	old.unpin()
	s.wg.Go(func() {
		for wait := time.Millisecond; old.pins.Load() > 0 || old.db.Metrics().OpenIterators > 0; wait = min(2*wait, time.Second) {
			select {
			case <-time.After(wait):
				continue
			case <-s.closing:
			}
			break
		}
		_ = old.close()
		_ = s.discard(old.path) // what is left is swept by the next start
	})
}

// hold returns the current store, pinned.
func (s *state) hold() *stateStore {
	for {
		if st := s.current.Load(); st.pin() {
			return st
		}
	}
}

// applied returns an index up to which all commands are in the state.
func (s *state) applied() uint64 { return s.current.Load().index.Load() }

// advance notes that all commands up to index are in a store, and reports whether that is still the current one.
//
// The index may be ahead of the position in the store: entries that are no commands change nothing
// in it. The check for the current store keeps an index of the old store from being noted for a new
// one.
func (s *state) advance(st *stateStore, index uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index > st.index.Load() {
		st.index.Store(index)
		s.wakeLocked()
	}
	return st == s.current.Load()
}

// replace makes another store the current one, which has all commands up to index.
func (s *state) replace(made *stateStore, index uint64) {
	made.index.Store(index)
	s.mu.Lock()
	old := s.current.Swap(made)
	s.wakeLocked()
	s.mu.Unlock()
	s.retire(old)
}

// wakeLocked lets all that wait in waitFor look again.
func (s *state) wakeLocked() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// end makes waitFor return err when its index is not there yet.
func (s *state) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	s.wakeLocked()
}

// waitFor waits until all commands up to index are in the state.
//
// All that wait share one channel, which is made by the first and closed by the next change. Each
// then looks again: a change wakes them all, and most of them wait for the same index anyway.
func (s *state) waitFor(ctx context.Context, index uint64) error {
	for {
		s.mu.Lock()
		if s.applied() >= index {
			s.mu.Unlock()
			return nil
		}
		if s.ended != nil {
			s.mu.Unlock()
			return s.ended
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noteDamage makes the next start replace the state, if err says that its files are damaged.
func (s *state) noteDamage(err error) {
	if isDamage(err) {
		_ = s.mark(s.current.Load().path) // whoever meets the damage next tries again
	}
}

// mark makes the next start look closely at what it takes in place of a state.
func (s *state) mark(path string) error {
	if err := durable.Write(s.fs, path+damageSuffix, nil); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// Close closes the store. Raft must have stopped. It is called once.
func (s *state) Close() error {
	s.end(ErrClosed)
	close(s.closing)
	s.wg.Wait()
	st := s.current.Load()
	damaged := st.db.Metrics().CorruptionsMet > 0
	err := st.close()
	if damaged {
		err = errors.Join(err, s.mark(st.path))
	}
	return err
}
