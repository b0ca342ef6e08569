package logset

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// Obsolete logs that somebody holds stay, under their names, until nobody does.

// isHeldLocked reports whether log num must be neither removed nor
// used again, if it is obsolete. Requires: mu is held.
func (l *Set) isHeldLocked(num base.FileNum) bool {
	return l.held[num] > 0 || l.holdFrom > 0 && num >= l.holdFrom || l.isKeptLocked(num)
}

// orphanLocked returns the names of obsolete logs that can be removed now. Logs
// that are held are left to Release and HoldFrom. Requires: mu is held.
func (l *Set) orphanLocked(files []logFile) (names []string) {
	for _, f := range files {
		if l.isHeldLocked(f.num) {
			l.orphans = append(l.orphans, f)
		} else {
			names = append(names, base.LogName(f.num))
			delete(l.ends, f.num)
		}
	}
	return names
}

// Hold holds those of the logs that are live and sealed, and returns
// them. They are neither removed nor used again before Release.
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

// Share holds all live logs but the current one, and returns their numbers. The caller
// makes a checkpoint that shares their files, so these files are never overwritten.
func (l *Set) Share() (nums []base.FileNum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.live[:len(l.live)-1] {
		f := &l.live[i]
		f.linked = true
		delete(l.ends, f.num)
		l.held[f.num]++
		nums = append(nums, f.num)
	}
	return nums
}

// Release undoes Hold or Share for each of the logs.
// It removes obsolete logs that nobody holds any more.
func (l *Set) Release(nums []base.FileNum) {
	l.mu.Lock()
	for _, num := range nums {
		if l.held[num]--; l.held[num] == 0 {
			delete(l.held, num)
		}
	}
	names := l.releasedLocked()
	l.mu.Unlock()
	l.env.Remove(names...)
}

// HoldFrom holds all logs with number num and higher ones, and no longer those with lower
// numbers: obsolete ones of these are removed. 0 holds none. Logs that are kept to be used
// again are not held: their content was given up when they were put there.
func (l *Set) HoldFrom(num base.FileNum) {
	l.mu.Lock()
	l.holdFrom = num
	names := l.releasedLocked()
	l.mu.Unlock()
	l.env.Remove(names...)
}

// releasedLocked takes the obsolete logs that nobody holds any
// more out of orphans, and returns their names. Requires: mu is held.
func (l *Set) releasedLocked() (names []string) {
	orphans := l.orphans
	l.orphans = nil
	return l.orphanLocked(orphans)
}

// Adopt takes over an obsolete log that an earlier process has left, if logs with its number
// are held: HoldFrom removes it later. Otherwise it returns false, and the caller removes it.
// AdoptKept has taken over those that Env.KeepLog spares.
func (l *Set) Adopt(num base.FileNum) (held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case slices.ContainsFunc(l.orphans, func(f logFile) bool { return f.num == num }):
	case l.holdFrom > 0 && num >= l.holdFrom:
		l.orphans = append(l.orphans, logFile{num: num, linked: true})
	default:
		return false
	}
	return true
}

// Orphans returns how many obsolete logs are held, and spared by Env.KeepLog.
func (l *Set) Orphans() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.orphans)
}

// OrphanBytes returns how many bytes the obsolete logs have that are held, and those
// that Env.KeepLog spares.
func (l *Set) OrphanBytes() (held, kept int64) {
	l.mu.Lock()
	orphans, from := slices.Clone(l.orphans), l.keepFrom
	l.mu.Unlock()
	for _, f := range orphans {
		info, err := l.env.FS.Stat(l.path(f.num))
		switch {
		case err != nil: // it was removed meanwhile
		case from > 0 && f.num >= from:
			kept += info.Size
		default:
			held += info.Size
		}
	}
	return held, kept
}
