// Package logset owns the log files of a store: which there are, which of them are still
// needed, and when they are synced behind the writers.
//
// A log begins when the memtable is full, and takes the writes of the next one. When the
// memtable is in tables, nobody needs its log any more; then the file is removed, or kept
// to become another log. Package wal has what is in the files.
package logset

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// maxRecyclable is how many obsolete logs are kept to be used again. Their
// blocks are written already, which makes a sync of new contents cheap.
const maxRecyclable = 2

// minPrepared is the least size of a memtable for which the next log is prepared
// while it fills: with smaller ones it would not be ready in time.
const minPrepared = 1 << 20

// A Set owns the log files of a store: the current one, the sealed ones whose writes
// no table has yet, the one prepared to be next, and those kept to be used again. A log
// that a checkpoint links or that Verify reads is held: it keeps its name meanwhile.
//
// Methods that require it are called only by the leader of the store's commit queue, and
// there is one leader at a time. All others may be called concurrently.
type Set struct {
	env  Env
	wake chan struct{} // to Loop: the next log should be made

	// current is the log that writes go to; nil if the store is read-only. The leader
	// of the commit queue replaces it.
	current atomic.Pointer[wal.Writer]

	// These belong to the leader of the commit queue.
	sealed *manifest.SealedLog // not nil: the current log takes no more writes, and its successor is still to be made
	asked  bool                // the next log was asked for

	mu         sync.Mutex
	live       []logFile            // oldest first, the current one last
	prepared   *wal.Prepared        // the next log's file, or nil
	recyclable []base.FileNum       // obsolete logs to be used again
	held       map[base.FileNum]int // by how many
	orphans    []base.FileNum       // obsolete logs that are held
	pastSyncs  uint64               // of all logs but the current one
	pastBytes  uint64
}

// An Env is what a Set needs from the store.
type Env struct {
	FS           vfs.FS
	Dir          string
	MemtableSize int64 // bytes, which is what a log holds
	MinPrepared  int64 // bytes of the smallest memtable for which logs are prepared; 0: the default
	NoMap        bool  // logs are not mapped into memory
	NewFileNum   func() base.FileNum
	// Note tells the manifest of a new log, and of its predecessor that was sealed; nil: there is none.
	Note   func(newLog base.FileNum, sealed *manifest.SealedLog) error
	Remove func(names ...string) // has files removed
	// NoRoom gives up room if err is for lack of it, and says whether to try again.
	NoRoom      func(what string, err error) bool
	Failed      func(what string, err error) // reports what the store can do without
	TakesWrites func() bool                  // whether the next log may be needed
}

// A logFile is a live log.
type logFile struct {
	num    base.FileNum
	sealed bool
	linked bool // a checkpoint shares the file, or may: it must not be overwritten
}

// New returns a Set without logs. Replay or Begin gives it some.
func New(env Env) *Set {
	if env.MinPrepared == 0 {
		env.MinPrepared = minPrepared
	}
	return &Set{env: env, wake: make(chan struct{}, 1), held: make(map[base.FileNum]int)}
}

// Current returns the current log; nil if the store is read-only.
func (l *Set) Current() *wal.Writer { return l.current.Load() }

// CurrentNum returns the number of the newest live log.
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

// path returns the name of a log's file.
func (l *Set) path(num base.FileNum) string { return filepath.Join(l.env.Dir, base.LogName(num)) }

// IsFull says whether the current log is sealed and the next one is still to be made.
// Requires: the caller leads the queue.
func (l *Set) IsFull() bool { return l.sealed != nil }

// Seal seals the current log, whose last write is lastSeq, unless a rotation has done
// so that could not begin the next one. Requires: the caller leads the queue.
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

// Begin creates the log that follows h.Prev, and tells the manifest of it and of the one
// that was sealed. The edit need not be durable yet: if it is lost, the log is found by
// its name. Requires: the caller leads the queue.
func (l *Set) Begin(h wal.Header) error {
	w, err := l.create(h)
	if err != nil {
		return err
	}
	if err := l.env.Note(w.Num(), l.sealed); err != nil {
		_ = w.Close() // the manifest's error is the one to report
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = append(l.live, logFile{num: w.Num()})
	// In one step with the counts of its predecessor, so that Stats counts those
	// bytes once.
	if old := l.current.Swap(w); old != nil {
		syncs, bytes := old.Stats()
		l.pastSyncs += syncs
		l.pastBytes += bytes
	}
	l.sealed = nil
	return nil
}

// create creates the log that follows h.Prev, of what is prepared if it can.
func (l *Set) create(h wal.Header) (*wal.Writer, error) {
	l.asked = false
	if p := l.takePrepared(); p != nil {
		if p.Num() > h.Prev && h.Prev > 0 { // else the manifest may say that logs begin behind it
			h.Num = p.Num()
			return p.Begin(h)
		}
		l.discard(p)
	}
	h.Num = l.env.NewFileNum()
	w, err := wal.Create(h, l.options())
	if err != nil && l.env.NoRoom("begin log", err) {
		h.Num = l.env.NewFileNum()
		w, err = wal.Create(h, l.options())
	}
	return w, err
}

// options takes a log to be used again, if there is one.
func (l *Set) options() wal.Options {
	// With room for the group of writes that goes beyond the memtable.
	prealloc := min(l.env.MemtableSize+l.env.MemtableSize/8, 64<<20) &^ 4095
	return wal.Options{FS: l.env.FS, Dir: l.env.Dir, Prealloc: prealloc, NoMap: l.env.NoMap, Recycle: l.takeRecyclable()}
}

// Ask has the next log prepared when half of the memtable is full, of which taken bytes
// are. Small memtables fill sooner than it would be ready. Requires: the caller leads the
// queue.
func (l *Set) Ask(taken int64) {
	if !l.asked && l.env.MemtableSize >= l.env.MinPrepared && taken > l.env.MemtableSize/2 {
		l.asked = true
		base.Wake(l.wake)
	}
}

// Loop makes the files of the next logs. It is not the goroutine that syncs: making a
// file may take longer than SyncEvery.
func (l *Set) Loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			if l.env.TakesWrites() {
				l.prepare()
			}
		}
	}
}

// prepare makes the file of the next log. If that fails, the rotation tries it itself,
// and reports why.
func (l *Set) prepare() {
	l.mu.Lock()
	have := l.prepared != nil
	l.mu.Unlock()
	if have {
		return
	}
	p, err := wal.Prepare(l.env.NewFileNum(), l.options())
	if err != nil {
		l.env.Failed("prepare log", err)
		return
	}
	l.mu.Lock()
	l.prepared = p
	l.mu.Unlock()
}

// takePrepared returns the log that is prepared, or nil.
func (l *Set) takePrepared() *wal.Prepared {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.prepared
	l.prepared = nil
	return p
}

// DiscardPrepared removes the log that is prepared, and says whether there was one. If
// the file stays, the next Open removes it.
func (l *Set) DiscardPrepared() (any bool) {
	p := l.takePrepared()
	l.discard(p)
	return p != nil
}

// discard removes a log that was prepared for nothing; nil: there is none.
func (l *Set) discard(p *wal.Prepared) {
	if p == nil {
		return
	}
	if err := p.Discard(); err != nil {
		l.env.Failed("remove a log never used", err)
	}
}

// Abandon closes the files of a store whose Open has failed. They stay where they are.
func (l *Set) Abandon() {
	if w := l.Current(); w != nil {
		_ = w.Close() // the error of Open is the one to report
	}
	if p := l.takePrepared(); p != nil {
		_ = p.Close() // likewise
	}
}

// takeRecyclable returns an obsolete log to be used again, or 0.
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

// Rotated notes that the current log's predecessor is sealed, and returns the number
// of the current one.
func (l *Set) Rotated() base.FileNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.live) - 1
	if last > 0 {
		l.live[last-1].sealed = true
	}
	return l.live[last].num
}

// DropBelow lets the logs below min go. Some are kept to be used again; it returns the
// names of those that the caller is to remove. Requires: the manifest's MinLog is min,
// durably.
func (l *Set) DropBelow(min base.FileNum) (gone []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.live[:0]
	var nums []base.FileNum
	for _, f := range l.live {
		switch {
		case f.num >= min:
			kept = append(kept, f)
		case f.sealed && !f.linked && l.held[f.num] == 0 && len(l.recyclable) < maxRecyclable:
			l.recyclable = append(l.recyclable, f.num)
		default:
			nums = append(nums, f.num)
		}
	}
	l.live = kept
	return l.orphanLocked(nums)
}

// DropRecyclable removes the logs that were kept to be used again, and says whether
// there were any.
func (l *Set) DropRecyclable() (any bool) {
	l.mu.Lock()
	any = len(l.recyclable) > 0
	names := l.orphanLocked(l.recyclable)
	l.recyclable = nil
	l.mu.Unlock()
	l.env.Remove(names...)
	return any
}

// GiveUp gives back the room that logs take without need: of the one that was
// prepared, and of those kept to be used again. It says whether there was any.
func (l *Set) GiveUp() (any bool) {
	any = l.DiscardPrepared()
	return l.DropRecyclable() || any
}

// orphanLocked returns the names of obsolete logs that can be removed now. Those that
// are held are removed by Release. Requires: mu is held.
func (l *Set) orphanLocked(nums []base.FileNum) (names []string) {
	for _, num := range nums {
		if l.held[num] > 0 {
			l.orphans = append(l.orphans, num)
		} else {
			names = append(names, base.LogName(num))
		}
	}
	return names
}

// Hold returns those of the logs that are live and sealed. They are neither removed nor
// used again before Release.
func (l *Set) Hold(logs []manifest.LogInfo) (held []manifest.LogInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, info := range logs {
		live := slices.ContainsFunc(l.live, func(f logFile) bool { return f.num == info.Num })
		if info.Sealed && live {
			l.held[info.Num]++
			held = append(held, info)
		}
	}
	return held
}

// Share holds all live logs but the current one, and returns their numbers. A
// checkpoint is going to share the files: they are never overwritten.
func (l *Set) Share() (nums []base.FileNum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.live[:len(l.live)-1] {
		f := &l.live[i]
		f.linked = true
		l.held[f.num]++
		nums = append(nums, f.num)
	}
	return nums
}

// Release undoes Hold and Share: the logs are not needed by their names any more.
func (l *Set) Release(nums []base.FileNum) {
	l.mu.Lock()
	for _, num := range nums {
		if l.held[num]--; l.held[num] == 0 {
			delete(l.held, num)
		}
	}
	orphans := l.orphans
	l.orphans = nil
	names := l.orphanLocked(orphans)
	l.mu.Unlock()
	l.env.Remove(names...)
}

// ForgetRecovered lets all logs go but the current one; the caller removes their files.
// Requires: the manifest's MinLog is the current one, durably.
func (l *Set) ForgetRecovered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = l.live[len(l.live)-1:]
}

// Spare says whether the next log is prepared, and how many logs are kept to be used again.
func (l *Set) Spare() (prepared bool, kept int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prepared != nil, len(l.recyclable)
}

// IsLive says whether log num is one that the store needs.
func (l *Set) IsLive(num base.FileNum) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.live, func(f logFile) bool { return f.num == num })
}

// Stats returns how often logs were synced since Open, and the bytes written to them.
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

// Append appends payloads, the last of which has the sequence number last. If the disk
// is full it tries once more with the room that the store can give up. syncNext says
// that a sync follows. Requires: the caller leads the queue.
func (l *Set) Append(payloads [][]byte, last base.Seq, syncNext bool) (end int64, err error) {
	w := l.current.Load()
	end, err = w.AppendBatch(payloads, last, syncNext)
	if err != nil && w.Err() == nil && l.env.NoRoom("write log", err) {
		end, err = w.AppendBatch(payloads, last, syncNext)
	}
	if err != nil {
		return 0, fmt.Errorf("shale: write log: %w", err)
	}
	return end, nil
}
