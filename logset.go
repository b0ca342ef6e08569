package shale

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// maxRecyclable is how many obsolete logs are kept to be used again. Their
// blocks are written already, which makes a sync of new contents cheap.
const maxRecyclable = 2

// minPrepared is the least size of a memtable for which the next log is prepared
// while it fills: with smaller ones it would not be ready in time.
const minPrepared = 1 << 20

// A logSet owns the log files of a store: the current one, the sealed ones whose writes
// no table has yet, the one prepared to be next, and those kept to be used again. A log
// that a checkpoint links or that Verify reads is held: it keeps its name meanwhile.
type logSet struct {
	logEnv
	storeID uint64        // set by Open, before the first log
	wake    chan struct{} // to prepareLoop: the next log should be made

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

// A logEnv is what a logSet needs from the store.
type logEnv struct {
	fs          vfs.FS
	dir         string
	memtable    int64 // bytes of a memtable, which is what a log holds
	minPrepared int64 // bytes of the smallest memtable for which logs are prepared; 0: the default
	noMap       bool  // logs are not mapped
	newFileNum  func() base.FileNum
	note        func(newLog base.FileNum, sealed *manifest.SealedLog) error // tells the manifest
	remove      func(names ...string)                                       // has files removed
	noRoom      func(what string, err error) bool                           // gives up room if err is for lack of it: try again?
	failed      func(what string, err error)                                // reports what the store can do without
}

// A logFile is a live log.
type logFile struct {
	num    base.FileNum
	sealed bool
	linked bool // a checkpoint shares the file, or may: it must not be overwritten
}

func newLogSet(env logEnv) *logSet {
	if env.minPrepared == 0 {
		env.minPrepared = minPrepared
	}
	return &logSet{logEnv: env, wake: make(chan struct{}, 1), held: make(map[base.FileNum]int)}
}

// currentNum returns the number of the newest live log.
func (l *logSet) currentNum() base.FileNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[len(l.live)-1].num
}

// seal seals the current log, whose last write is lastSeq, unless a rotation has done
// so that could not begin the next one. Requires: the caller leads the queue.
func (l *logSet) seal(lastSeq base.Seq) (*manifest.SealedLog, error) {
	if l.sealed == nil {
		length, err := l.current.Load().Seal()
		if err != nil {
			return nil, err
		}
		l.sealed = &manifest.SealedLog{Num: l.currentNum(), Length: length, LastSeq: lastSeq}
	}
	return l.sealed, nil
}

// begin creates the log that follows h.Prev, and tells the manifest of it and of the one
// that was sealed. The edit need not be durable yet: if it is lost, the log is found by
// its name. Requires: the caller leads the queue.
func (l *logSet) begin(h wal.Header) error {
	w, err := l.create(h)
	if err != nil {
		return err
	}
	if err := l.note(w.Num(), l.sealed); err != nil {
		_ = w.Close() // the manifest's error is the one to report
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = append(l.live, logFile{num: w.Num()})
	// In one step with the counts of its predecessor, so that stats meets that
	// neither twice nor not at all.
	if old := l.current.Swap(w); old != nil {
		syncs, bytes := old.Stats()
		l.pastSyncs += syncs
		l.pastBytes += bytes
	}
	l.sealed = nil
	return nil
}

// create creates the log that follows h.Prev, of what is prepared if it can.
func (l *logSet) create(h wal.Header) (*wal.Writer, error) {
	h.StoreID = l.storeID
	l.asked = false
	if p := l.takePrepared(); p != nil {
		if p.Num() > h.Prev && h.Prev > 0 { // else the manifest may say that logs begin behind it
			h.Num = p.Num()
			return p.Begin(h)
		}
		l.discard(p)
	}
	h.Num = l.newFileNum()
	w, err := wal.Create(h, l.options())
	if err != nil && l.noRoom("begin log", err) {
		h.Num = l.newFileNum()
		w, err = wal.Create(h, l.options())
	}
	return w, err
}

// options takes a log to be used again, if there is one.
func (l *logSet) options() wal.Options {
	// With room for the group of writes that goes beyond the memtable.
	prealloc := min(l.memtable+l.memtable/8, 64<<20) &^ 4095
	return wal.Options{FS: l.fs, Dir: l.dir, Prealloc: prealloc, NoMap: l.noMap, Recycle: l.takeRecyclable()}
}

// ask has the next log prepared when half of the memtable is full. Small memtables
// fill sooner than it would be ready. Requires: the caller leads the queue.
func (l *logSet) ask(mem *memtable.Memtable) {
	if !l.asked && l.memtable >= l.minPrepared && mem.Taken() > l.memtable/2 {
		l.asked = true
		base.Wake(l.wake)
	}
}

// prepare makes the file of the next log. If that fails, the rotation tries it itself,
// and reports why.
func (l *logSet) prepare() {
	l.mu.Lock()
	have := l.prepared != nil
	l.mu.Unlock()
	if have {
		return
	}
	p, err := wal.Prepare(l.newFileNum(), l.options())
	if err != nil {
		l.failed("prepare log", err)
		return
	}
	l.mu.Lock()
	l.prepared = p
	l.mu.Unlock()
}

// takePrepared returns the log that is prepared, or nil.
func (l *logSet) takePrepared() *wal.Prepared {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.prepared
	l.prepared = nil
	return p
}

// discard removes a log that was prepared for nothing. If it stays, the next Open
// removes it.
func (l *logSet) discard(p *wal.Prepared) {
	if err := p.Discard(); err != nil {
		l.failed("remove a log never used", err)
	}
}

// takeRecyclable returns an obsolete log to be used again, or 0.
func (l *logSet) takeRecyclable() base.FileNum {
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

// rotated notes that the current log's predecessor is sealed, and returns the number
// of the current one.
func (l *logSet) rotated() base.FileNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.live) - 1
	if last > 0 {
		l.live[last-1].sealed = true
	}
	return l.live[last].num
}

// dropBelow lets the logs below min go. Some are kept to be used again; it returns the
// names of those that the caller is to remove. Requires: the manifest's MinLog is min,
// durably.
func (l *logSet) dropBelow(min base.FileNum) (gone []string) {
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

// dropRecyclable removes the logs that were kept to be used again, and says whether
// there were any.
func (l *logSet) dropRecyclable() (any bool) {
	l.mu.Lock()
	any = len(l.recyclable) > 0
	names := l.orphanLocked(l.recyclable)
	l.recyclable = nil
	l.mu.Unlock()
	l.remove(names...)
	return any
}

// giveUp gives back the room that logs take without need: of the one that was
// prepared, and of those kept to be used again. It says whether there was any.
func (l *logSet) giveUp() (any bool) {
	if p := l.takePrepared(); p != nil {
		l.discard(p)
		any = true
	}
	return l.dropRecyclable() || any
}

// orphanLocked returns the names of obsolete logs that can be removed now. Those that
// are held are removed by release. Requires: mu is held.
func (l *logSet) orphanLocked(nums []base.FileNum) (names []string) {
	for _, num := range nums {
		if l.held[num] > 0 {
			l.orphans = append(l.orphans, num)
		} else {
			names = append(names, base.LogName(num))
		}
	}
	return names
}

// hold returns those of the logs that are live and sealed. They are neither removed nor
// used again before release.
func (l *logSet) hold(logs []manifest.LogInfo) (held []manifest.LogInfo) {
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

// share holds all live logs but the current one, and returns their numbers. A
// checkpoint is going to share the files: they are never overwritten.
func (l *logSet) share() (nums []base.FileNum) {
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

// release undoes hold and share: the logs are not needed by their names any more.
func (l *logSet) release(nums []base.FileNum) {
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
	l.remove(names...)
}

// isLive says whether log num is one that the store needs.
func (l *logSet) isLive(num base.FileNum) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.live, func(f logFile) bool { return f.num == num })
}

// stats returns how often logs were synced since Open, and the bytes written to them.
func (l *logSet) stats() (syncs, bytes uint64) {
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

// append appends payloads, the last of which has the sequence number last. If the disk
// is full it tries once more with the room that the store can give up. syncNext says
// that a sync follows. Requires: the caller leads the queue.
func (l *logSet) append(payloads [][]byte, last base.Seq, syncNext bool) (end int64, err error) {
	w := l.current.Load()
	end, err = w.AppendBatch(payloads, last, syncNext)
	if err != nil && w.Err() == nil && l.noRoom("write log", err) {
		end, err = w.AppendBatch(payloads, last, syncNext)
	}
	if err != nil {
		return 0, fmt.Errorf("shale: write log: %w", err)
	}
	return end, nil
}
