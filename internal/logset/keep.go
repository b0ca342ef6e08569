package logset

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// Env.KeepLog spares obsolete logs, the newest ones first, so that feeds find them.

// isKeptLocked reports whether KeepLog spares log num, if it is obsolete. Requires: mu is held.
func (l *Set) isKeptLocked(num base.FileNum) bool { return l.keepFrom > 0 && num >= l.keepFrom }

// keepLocked decides which of the obsolete logs KeepLog spares: the newest ones, as far as all of
// them together have no more bytes. Requires: mu is held.
func (l *Set) keepLocked(obsolete []logFile) {
	if l.env.KeepLog <= 0 {
		return
	}
	l.keepFrom = 0
	sum := int64(0)
	for _, f := range newestFirst(obsolete) {
		if sum += f.end; sum > l.env.KeepLog {
			return
		}
		l.keepFrom = f.num
	}
}

// newestFirst returns files in descending order.
func newestFirst(files []logFile) []*logFile {
	sorted := make([]*logFile, len(files))
	for i := range files {
		sorted[i] = &files[i]
	}
	slices.SortFunc(sorted, func(a, b *logFile) int { return cmp.Compare(b.num, a.num) })
	return sorted
}

// AdoptKept takes over the obsolete logs of earlier processes that KeepLog spares. names are the files
// in the directory; session returns the session that must have written a log, or 0. A file that is
// no log of the store, and what is older, is left to the caller. One that can't be looked at now is
// kept, and the error is one of theirs. It is called once, by Open.
func (l *Set) AdoptKept(storeID uint64, names []string, session func(base.FileNum) uint64) (failed error) {
	if l.env.KeepLog <= 0 {
		return nil
	}
	var found []logFile
	oldest := l.there(0)[0]
	for _, name := range names {
		t, num, ok := base.ParseFileName(name)
		if !ok || t != base.FileLog || num >= oldest {
			continue
		}
		info, err := l.env.FS.Stat(l.path(num))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		failed = cmp.Or(failed, err)
		// Whether a checkpoint shares the file is not known: see replay.run.
		found = append(found, logFile{num: num, linked: true, end: info.Size})
	}
	sum := int64(0)
	for _, f := range newestFirst(found) {
		_, err := wal.ReadHeader(l.env.FS, l.env.Dir, f.num, storeID, session(f.num))
		var damage *base.CorruptionError
		if errors.As(err, &damage) || errors.Is(err, base.ErrFormatTooNew) {
			continue
		}
		failed = cmp.Or(failed, err)
		if sum += f.end; sum > l.env.KeepLog {
			break
		}
		l.mu.Lock()
		l.orphans, l.keepFrom = append(l.orphans, *f), f.num
		l.mu.Unlock()
	}
	return failed
}

// there returns the numbers above num of the logs that are there, live or held, in their order.
func (l *Set) there(num base.FileNum) (nums []base.FileNum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, files := range [][]logFile{l.orphans, l.live} {
		for _, f := range files {
			if f.num > num {
				nums = append(nums, f.num)
			}
		}
	}
	slices.Sort(nums)
	return nums
}

// holdOne holds log num until Release, and reports whether it is still there.
func (l *Set) holdOne(num base.FileNum) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(f logFile) bool { return f.num == num }
	if !slices.ContainsFunc(l.live, is) && !slices.ContainsFunc(l.orphans, is) {
		return false
	}
	l.held[num]++
	return true
}
