// Package logset owns the log files of a store: it knows which logs
// exist and which are still needed, and it syncs them in the background.
//
// A rotation seals the current log when the memtable is full and begins the
// next log for the next memtable. When all writes of a memtable are in tables,
// its log is no longer needed. The file is then removed, or kept to be used
// again for another log. Package wal describes the contents of the files.
package logset

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// maxRecyclable is how many obsolete logs are kept to be used again. Their
// blocks are allocated and written already, so a sync of new contents is cheap.
const maxRecyclable = 2

// A Set owns the log files of a store: the current log, sealed logs with
// writes that are in no table yet, the prepared next log, and obsolete
// logs that are kept to be used again. A log that a checkpoint links or
// that Verify reads is held: meanwhile it is neither removed nor renamed.
// So are all obsolete logs from some number on, if the program wants to
// copy them (HoldFrom), and the newest ones up to Env.KeepLog bytes, for feeds.
//
// Methods that require the leader are called only by the leader of the store's commit
// queue. There is only one leader at a time. All other methods may be called concurrently.
type Set struct {
	env  Env
	wake chan struct{} // to Loop: prepare the next log

	// current is the log that writes go to. It is nil if
	// the store is read-only. Only the leader replaces it.
	current atomic.Pointer[wal.Writer]

	// The leader owns the following fields.
	sealed *manifest.SealedLog // not nil: the current log is sealed, and the next one does not exist yet
	asked  bool                // Ask has woken Loop for the next log

	syncer *Syncer // told of what was appended; nil: nobody is

	tail tail // how far Replay and Follow have read; their caller owns it

	giving lockorder.Mutex[lockorder.Giving] // one GiveUp at a time: when it returns, all that it found is free; before mu

	mu         lockorder.Mutex[lockorder.Leaf]
	live       []logFile            // oldest first, the current one last
	wanted     bool                 // the next log is to be prepared, or is: set by Ask, until a rotation or GiveUp
	preparing  chan struct{}        // closed when the file in the making is prepared, or removed; nil: none is in the making
	prepared   *wal.Prepared        // the file of the next log; nil: there is none
	recyclable []base.FileNum       // obsolete logs that are kept to be used again
	held       map[base.FileNum]int // number of holders of each held log
	orphans    []logFile            // obsolete logs that are held; the last Release removes them, or HoldFrom
	holdFrom   base.FileNum         // obsolete logs from this number on are held; 0: none
	keepFrom   base.FileNum         // obsolete logs from this number on are spared by Env.KeepLog; 0: none
	pastSyncs  uint64               // syncs of all logs before the current one
	pastBytes  uint64               // bytes written to them

	// ends has the lengths of sealed logs whose files may be longer than that.
	ends map[base.FileNum]int64

	// Durable rings when more of the logs is durable, and when a log has begun.
	Durable base.Bell
}

// An Env is what a Set needs from the store.
type Env struct {
	FS           vfs.FS
	Dir          string
	MemtableSize int64  // bytes; a log holds about as much
	MinPrepared  int64  // bytes; size of the smallest memtable for which logs are prepared; 0: the default
	NoMap        bool   // do not map logs into memory
	Session      uint64 // the session that the logs are of which the Set begins
	NewFileNum   func() base.FileNum
	HoldFrom     base.FileNum // see Set.HoldFrom
	KeepLog      int64        // bytes of obsolete logs that are held, the newest ones
	// Note records a new log in the manifest, and its
	// sealed predecessor, which is nil if there is none.
	Note   func(newLog base.FileNum, sealed *manifest.SealedLog) error
	Remove func(names ...string) // removes files
	// Held is asked after each sync of a log: if it returns an error, the sync counts as failed.
	Held func() error
	// Freed returns a number that grows when space on the disk was freed.
	Freed func() uint64
	// NoRoom is called with an error, and with what Freed returned before the attempt.
	// If the cause is a full disk, it frees what the store can do without, and reports
	// whether to try again.
	NoRoom      func(what string, freed uint64, err error) bool
	Failed      func(what string, err error) // reports an error that the store can continue after
	TakesWrites func() bool                  // reports whether the store takes writes, so that a next log may be needed
}

// A logFile is a live log.
type logFile struct {
	num    base.FileNum
	sealed bool
	linked bool  // a checkpoint shares the file, or may share it: it must not be overwritten
	end    int64 // length in bytes, as far as it is known: of a log that was sealed, given up or recovered; 0: another one
}

// New returns a Set without logs. Replay or Begin adds the first one.
func New(env Env) *Set {
	if env.MinPrepared == 0 {
		env.MinPrepared = minPrepared
	}
	return &Set{env: env, wake: make(chan struct{}, 1), held: make(map[base.FileNum]int), holdFrom: env.HoldFrom, ends: make(map[base.FileNum]int64)}
}

// Current returns the current log, or nil if the store is read-only.
func (l *Set) Current() *wal.Writer { return l.current.Load() }

// CurrentNum returns the number of the newest live log. Requires: there is one.
func (l *Set) CurrentNum() base.FileNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[len(l.live)-1].num
}

// Count returns how many logs are live.
func (l *Set) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.live)
}

// path returns the path of a log's file.
func (l *Set) path(num base.FileNum) string { return filepath.Join(l.env.Dir, base.LogName(num)) }

// IsFull reports whether the current log is sealed and the next
// one does not exist yet. Requires: the caller is the leader.
func (l *Set) IsFull() bool { return l.sealed != nil }

// Seal seals the current log, whose last write is lastSeq. If an
// earlier rotation has sealed it but could not begin the next log, Seal
// returns the same result again. Requires: the caller is the leader.
func (l *Set) Seal(lastSeq base.Seq) (*manifest.SealedLog, error) {
	if l.sealed == nil {
		length, err := l.current.Load().Seal()
		if err != nil {
			return nil, err
		}
		l.sealed = &manifest.SealedLog{Num: l.CurrentNum(), Length: length, LastSeq: lastSeq}
	}
	return l.sealed, nil
}

// Forget forgets the logs of a store that has just been opened. Requires: the manifest's MinLog is above their numbers, and
// this is durable. The caller removes their files, but for those that Adopt takes.
func (l *Set) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = nil
}

// Begin creates the log that follows h.Prev, records it and its sealed predecessor
// in the manifest, and makes it the current log. The edit need not be durable: if it
// is lost, recovery finds the log by its name. Requires: the caller is the leader.
func (l *Set) Begin(h wal.Header) error {
	w, err := l.create(h)
	if err != nil {
		return err
	}
	if err := l.env.Note(w.Num(), l.sealed); err != nil {
		_ = w.Close() // the manifest's error is the one to report
		return err
	}
	if old := l.Current(); old != nil && l.env.KeepLog > 0 && old.Len() < l.expected()/2 {
		old.Shrink() // it may be kept for long
	}
	defer l.Durable.Ring()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = append(l.live, logFile{num: w.Num()})
	// The current log is replaced and its counts are added under
	// one lock, so that Stats counts its bytes exactly once.
	if old := l.current.Swap(w); old != nil {
		syncs, bytes := old.Stats()
		l.pastSyncs += syncs
		l.pastBytes += bytes
		l.live[len(l.live)-2].end = old.Len()
	}
	l.sealed = nil
	return nil
}

// create creates the log that follows h.Prev. It uses the prepared log if it can. If the
// disk is full, it tries once more after the store has freed what it can do without, and the
// current log what it has reserved. Requires: the caller is the leader.
func (l *Set) create(h wal.Header) (*wal.Writer, error) {
	l.asked = false
	h.Session = l.env.Session
	if p := l.takePrepared(); p != nil {
		if p.Num() > h.Prev && h.Prev > 0 { // otherwise the manifest's MinLog may be above p's number
			h.Num = p.Num()
			if w, err := p.Begin(h); !base.IsNoSpace(err) {
				return w, err
			} // the file is removed, and another may need less room
		} else {
			l.discard(p)
		}
	}
	freed := l.env.Freed()
	h.Num = l.env.NewFileNum()
	w, err := wal.Create(h, l.options())
	if base.IsNoSpace(err) {
		old := l.current.Load()
		shrunk := old != nil && old.Shrink()
		if l.env.NoRoom("begin log", freed, err) || shrunk {
			h.Num = l.env.NewFileNum()
			w, err = wal.Create(h, l.options())
		}
	}
	return w, err
}

// options returns the options for a new log. It takes
// an obsolete log to be used again, if there is one.
func (l *Set) options() wal.Options {
	return wal.Options{FS: l.env.FS, Dir: l.env.Dir, Prealloc: l.expected() &^ 4095, NoMap: l.env.NoMap, Held: l.env.Held, Synced: l.Durable.Ring, Recycle: l.takeRecyclable()}
}

// expected returns how many bytes a log has as a rule: an eighth more than a memtable,
// because the last group of writes may go beyond its size.
func (l *Set) expected() int64 { return min(l.env.MemtableSize+l.env.MemtableSize/8, 64<<20) }

// IsLong reports whether the current log has all the bytes that a log has as a rule. A memtable
// that fills ends it before; the marks of ingestions fill no memtable. Requires: the caller is
// the leader.
func (l *Set) IsLong() bool { return l.current.Load().Len() >= l.expected() }

// Abandon closes the log files of a store whose
// Open has failed. The files stay in the directory.
func (l *Set) Abandon() {
	if w := l.Current(); w != nil {
		_ = w.Close() // the error of Open is the one to report
	}
	if p := l.takePrepared(); p != nil {
		_ = p.Close() // the same
	}
}

// takeRecyclable returns the number of an obsolete
// log that is used again now, or 0 if there is none.
func (l *Set) takeRecyclable() base.FileNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.recyclable)
	if n == 0 {
		return 0
	}
	num := l.recyclable[n-1]
	l.recyclable = l.recyclable[:n-1]
	return num
}

// Rotated marks the predecessor of the current log as sealed, and returns the
// number of the current one. Requires: the predecessor's Writer is closed.
func (l *Set) Rotated() base.FileNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.live) - 1
	if last > 0 {
		old := &l.live[last-1]
		old.sealed = true
		if old.end > 0 && !old.linked {
			l.ends[old.num] = old.end
		}
	}
	return l.live[last].num
}

// DropBelow forgets the logs with numbers below min. It keeps some files
// to be used again and returns the names of the others, which the caller
// removes. Requires: the manifest's MinLog is min, and this is durable.
// Otherwise a crash could leave a manifest that needs a removed log.
func (l *Set) DropBelow(min base.FileNum) (gone []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.live, func(f logFile) bool { return f.num >= min })
	if i < 0 {
		i = len(l.live)
	}
	obsolete := append(l.orphans, l.live[:i]...)
	l.live, l.orphans = slices.Clone(l.live[i:]), nil
	l.keepLocked(obsolete)
	var rest []logFile
	for _, f := range obsolete {
		if f.sealed && !f.linked && !l.isHeldLocked(f.num) && len(l.recyclable) < maxRecyclable {
			l.recyclable = append(l.recyclable, f.num)
			delete(l.ends, f.num)
		} else {
			rest = append(rest, f)
		}
	}
	return l.orphanLocked(rest)
}

// DropRecyclable removes the logs that are kept to be used again, and reports whether
// there were any. None of them is held: see HoldFrom.
func (l *Set) DropRecyclable() (any bool) {
	l.mu.Lock()
	logs := l.recyclable
	l.recyclable = nil
	l.mu.Unlock()
	for _, num := range logs {
		l.env.Remove(base.LogName(num))
	}
	return len(logs) > 0
}

// GiveUp frees the disk space of logs that is not needed: the prepared log, also if it is still in the
// making, the logs that are kept to be used again, and what sealed logs have reserved behind their ends.
// The next log is not prepared before the next rotation. GiveUp reports whether there was any such space.
// It waits for another GiveUp, because what that one frees is not free before it returns.
func (l *Set) GiveUp() (any bool) {
	l.giving.Lock()
	defer l.giving.Unlock()
	any = l.cancelPreparing()
	any = l.DiscardPrepared() || any
	any = l.trim() || any
	return l.DropRecyclable() || any
}

// trim cuts sealed logs at their ends, each once. It reports whether that gave any space back. A
// failure only costs space. The logs are held meanwhile, so that none of them becomes another log.
func (l *Set) trim() (any bool) {
	l.mu.Lock()
	ends := l.ends
	l.ends = make(map[base.FileNum]int64)
	for num := range ends {
		l.held[num]++
	}
	l.mu.Unlock()
	for num, end := range ends {
		any = wal.TrimFile(l.env.FS, l.path(num), end) || any
	}
	if len(ends) > 0 {
		l.Release(slices.Collect(maps.Keys(ends)))
	}
	return any
}

// Spare reports whether the next log is prepared,
// and how many logs are kept to be used again.
func (l *Set) Spare() (prepared bool, kept int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prepared != nil, len(l.recyclable)
}

// IsLive reports whether the store needs log num.
func (l *Set) IsLive(num base.FileNum) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.live, func(f logFile) bool { return f.num == num })
}

// Stats returns the number of syncs of logs since
// Open, and the number of bytes written to logs.
func (l *Set) Stats() (syncs, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	syncs, bytes = l.pastSyncs, l.pastBytes
	if w := l.current.Load(); w != nil {
		s, b := w.Stats()
		syncs += s
		bytes += b
	}
	return syncs, bytes
}

// Append appends payloads, one for each batch, to the current log. When much of the log is not on
// disk yet, it wakes the syncer. last is the sequence number of the last payload. syncNext says
// that a sync follows. If the disk is full, Append tries once more after the
// store has freed what it can do without. Requires: the caller is the leader.
func (l *Set) Append(payloads [][]byte, last base.Seq, syncNext bool) error {
	w := l.current.Load()
	freed := l.env.Freed()
	end, err := w.AppendBatch(payloads, last, syncNext)
	if err != nil && w.Err() == nil && l.env.NoRoom("write log", freed, err) {
		end, err = w.AppendBatch(payloads, last, syncNext)
	}
	if err != nil {
		return fmt.Errorf("shale: write log: %w", err)
	}
	if l.syncer != nil {
		l.syncer.nudge(w, end)
	}
	return nil
}
