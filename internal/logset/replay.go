package logset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// ReplayOptions are the arguments of Replay.
type ReplayOptions struct {
	StoreID  uint64
	ReadOnly bool // the logs belong to another process, which may write to them during Replay
	// Apply is called for each record, in the order in
	// which they were written. It must not keep payload.
	Apply func(log base.FileNum, payload []byte) error
}

// Replayed is the result of Replay.
type Replayed struct {
	Header     wal.Header   // for the next log, without its number: Prev names the newest log found
	LastSeq    base.Seq     // the highest sequence number in any log
	HighestNum base.FileNum // the highest number of a log in the directory, whether it was used or not
}

// Replay reads the live logs in order and makes them the logs of the set. The steps are:
//
//  1. liveLogs lists the logs that hold writes which are in no table.
//  2. usedLogs reads their headers and leaves out
//     logs that a crash met while they were created.
//  3. read checks each log and applies its records. If it is
//     known how far the log was synced, a shorter log is damage.
//  4. settle makes durable what was read from logs whose end was not known.
//
// At the end, state has the length of each log.
func (l *Set) Replay(state *manifest.State, opts ReplayOptions) (Replayed, error) {
	p := replay{Set: l, state: state, opts: opts}
	p.found.Header.StoreID = opts.StoreID
	if err := p.run(); err != nil {
		return Replayed{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.tail = p.live, p.tail
	return p.found, nil
}

// A replay is the state of one call of Replay.
type replay struct {
	*Set
	state *manifest.State
	opts  ReplayOptions
	found Replayed
	live  []logFile
	tail  tail // the newest log
}

// run takes the steps of Replay.
func (p *replay) run() error {
	nums, err := p.liveLogs()
	if err != nil {
		return err
	}
	nums, headers, err := p.usedLogs(nums)
	if err != nil {
		return err
	}
	ends := make([]manifest.LogInfo, len(nums))
	known := make([]int64, len(nums)) // the lengths that the manifest or the next log states, or -1
	for i, num := range nums {
		known[i] = sealedLength(p.state, num)
		if i+1 < len(nums) && headers[i+1].Prev == num {
			known[i] = headers[i+1].PrevLen
		}
		result, err := p.read(num, known[i])
		if err != nil {
			return base.MissingIsDamage(err, base.LogName(num))
		}
		ends[i] = manifest.LogInfo{Num: num, Sealed: true, Length: result.Length, LastSeq: result.LastSeq}
		p.found.LastSeq = max(p.found.LastSeq, result.LastSeq)
		h := &p.found.Header
		h.Prev, h.PrevLen, h.PrevSeq = num, result.Length, result.LastSeq
		// A checkpoint may share the file, or this store may be the checkpoint.
		// Only the handle that made it knew. So the file counts as linked.
		p.live = append(p.live, logFile{num: num, sealed: result.Sealed, linked: true, end: result.Length})
		p.tail = tail{num: num, result: result, seq: p.found.LastSeq}
	}
	for i, end := range ends {
		// From now on these logs end where they were found to end. Until
		// now their last bytes may have been in the page cache only.
		if known[i] < 0 {
			if err := p.settle(end.Num, end.Length); err != nil {
				return err
			}
		}
	}
	p.state.Logs = ends
	return nil
}

// liveLogs lists the logs that hold writes which are in no table, in ascending order:
// those that the manifest names, and newer ones that were created after its last edit.
func (p *replay) liveLogs() (nums []base.FileNum, err error) {
	names, err := p.env.FS.List(p.env.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if t, n, ok := base.ParseFileName(name); ok && t == base.FileLog && n >= p.state.MinLog {
			nums = append(nums, n)
			p.found.HighestNum = max(p.found.HighestNum, n)
		}
	}
	for _, log := range p.state.Logs {
		if log.Num >= p.state.MinLog && !slices.Contains(nums, log.Num) {
			return nil, base.Corruption(base.LogName(log.Num), -1, "log named by the manifest", errors.New("missing"))
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// usedLogs reads the headers of the logs. It leaves out logs that a crash met
// while they were created, because nothing was written to them. If a crash met
// the removal of such a log, it may even stand before logs that were used.
func (p *replay) usedLogs(nums []base.FileNum) (used []base.FileNum, headers []wal.Header, err error) {
	unused := make(map[base.FileNum]error)
	for _, num := range nums {
		h, err := wal.ReadHeader(p.env.FS, p.env.Dir, num, p.opts.StoreID, p.state.SessionOf(num))
		switch {
		case errors.Is(err, wal.ErrNeverUsed) && !announced(p.state, num):
			unused[num] = err
			continue
		case err != nil:
			return nil, nil, base.MissingIsDamage(err, base.LogName(num))
		case unused[h.Prev] != nil:
			return nil, nil, unused[h.Prev] // that log was complete when this one was created
		case h.Prev >= p.state.MinLog && h.Prev > 0 && !slices.Contains(used, h.Prev):
			return nil, nil, base.Corruption(base.LogName(h.Prev), -1, "log before "+base.LogName(num), errors.New("missing"))
		case len(used) > 0 && replacesBroken(p.state, h):
			return nil, nil, errNoPredecessor(h)
		}
		used, headers = append(used, num), append(headers, h)
	}
	return used, headers, nil
}

// replacesBroken reports whether a log that follows others has replaced a broken one. It then says nothing
// about them, because all their writes are in tables. The manifest said so before the log was made:
// if it does not, it was read earlier, and lacks these tables.
func replacesBroken(state *manifest.State, h wal.Header) bool {
	return h.Prev == 0 && !announced(state, h.Num)
}

func errNoPredecessor(h wal.Header) error {
	return base.Corruption(base.LogName(h.Num), -1, "log header",
		errors.New("it names no log before it, and the manifest still needs earlier ones"))
}

// announced reports whether the manifest names the log.
func announced(state *manifest.State, num base.FileNum) bool {
	return slices.ContainsFunc(state.Logs, func(l manifest.LogInfo) bool { return l.Num == num })
}

// sealedLength returns the length in bytes that the
// manifest states for the log, or -1 if it states none.
func sealedLength(state *manifest.State, num base.FileNum) int64 {
	for _, l := range state.Logs {
		if l.Num == num && l.Sealed {
			return l.Length
		}
	}
	return -1
}

// read applies the records of one log. length is where the log is known to end, or -1.
func (p *replay) read(num base.FileNum, length int64) (wal.Result, error) {
	o := wal.ReadOptions{Known: length, Session: p.state.SessionOf(num), Shared: p.opts.ReadOnly}
	result, err := wal.Read(p.env.FS, p.env.Dir, num, p.opts.StoreID, o, func(payload []byte) error {
		return p.opts.Apply(num, payload)
	})
	if err != nil {
		return result, err
	}
	if p.opts.ReadOnly && length < 0 {
		// The log's owner may have begun to use the file as another log while it was
		// read. The records then seemed to end early, as if the end was torn. The
		// owner renames the file before it writes to it, so the old name is gone.
		if _, err := p.env.FS.Stat(p.path(num)); err != nil {
			return result, err
		}
	}
	return result, nil
}

// settle makes the first length bytes of a log durable that an earlier process
// has written. A sync alone is not enough: if an earlier sync has failed, the
// system has marked the pages clean. It then shows their contents to readers
// but would not write them. So settle writes the bytes again before it syncs.
func (p *replay) settle(num base.FileNum, length int64) error {
	if p.opts.ReadOnly {
		return nil
	}
	f, err := p.env.FS.OpenReadWrite(p.path(num))
	if err != nil {
		return err
	}
	if err = rewrite(f, length); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rewrite writes the first length bytes of a file over themselves.
func rewrite(f vfs.File, length int64) error {
	buf := make([]byte, min(length, 256<<10))
	for off := int64(0); off < length; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), length-off)]
		if n, err := f.ReadAt(buf, off); n < len(buf) {
			return fmt.Errorf("read %d of %d bytes at %d: %w", n, len(buf), off, err)
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			return err
		}
	}
	return nil
}
