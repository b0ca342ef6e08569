package manifest

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
)

// An Edit is one step from a version to the next, together with what the
// store must remember about its logs and counters. It takes effect as a whole
// or not at all. Zero fields change nothing.
//
// Within an edit removals come before additions (so a table may move from one
// level to another under its number), additions before Sidecars, and NewLog before SealedLog before
// MinLog.
type Edit struct {
	// NextFileNum: file numbers below it are used up. Each edit that is
	// appended to a snapshot has it, so that Salvage can tell that the
	// snapshot before it is whole.
	NextFileNum base.FileNum
	// LastSeq: sequence numbers up to it are used up.
	LastSeq base.Seq
	// MinLog: logs below it are obsolete, their entries are in tables.
	MinLog base.FileNum
	// NewLog announces a log. Write it when the log's directory entry is
	// durable: from then on a missing file is damage.
	NewLog base.FileNum
	// SealedLog states the final extent of a log announced before.
	SealedLog *SealedLog

	Removed []Removed
	Added   []Added
	// Sidecars are for tables that are there already: one that is added has its
	// own in Added.
	Sidecars []Beside
}

// A SealedLog is the final extent of a log.
type SealedLog struct {
	Num     base.FileNum
	Length  int64 // in bytes, all of them durable
	LastSeq base.Seq
}

// Removed names a table that leaves a level.
type Removed struct {
	Level int
	Num   base.FileNum
	// Table, which need not be given, is the table or one of its bounds: it is
	// then found without a look at all others. It is not written down.
	Table *Table
}

// Added places a table in a run of a level.
type Added struct {
	Level int
	Run   uint64
	Table *Table
}

// byLevel sorts the edit's tables by level and run, as Apply needs them.
func (e *Edit) byLevel() (removed [NumLevels]map[base.FileNum]*Table, added [NumLevels]map[uint64][]*Table, err error) {
	for _, r := range e.Removed {
		if err := checkLevel(r.Level); err != nil {
			return removed, added, err
		}
		if removed[r.Level] == nil {
			removed[r.Level] = make(map[base.FileNum]*Table)
		}
		if _, twice := removed[r.Level][r.Num]; twice {
			return removed, added, fmt.Errorf("level %d: table %s is removed twice", r.Level, r.Num)
		}
		removed[r.Level][r.Num] = r.Table
	}
	for _, a := range e.Added {
		if err := checkLevel(a.Level); err != nil {
			return removed, added, err
		}
		if added[a.Level] == nil {
			added[a.Level] = make(map[uint64][]*Table)
		}
		added[a.Level][a.Run] = append(added[a.Level][a.Run], a.Table)
	}
	return removed, added, nil
}

// sidecarsByLevel sorts the edit's sidecars by level.
func (e *Edit) sidecarsByLevel() (sidecars [NumLevels]map[base.FileNum]*Sidecar, err error) {
	for _, b := range e.Sidecars {
		if err := checkLevel(b.Level); err != nil {
			return sidecars, err
		}
		if sidecars[b.Level] == nil {
			sidecars[b.Level] = make(map[base.FileNum]*Sidecar)
		}
		sidecars[b.Level][b.Num] = b.Sidecar
	}
	return sidecars, nil
}

func checkLevel(level int) error {
	if level < 0 || level >= NumLevels {
		return fmt.Errorf("level %d is not in [0, %d]", level, NumLevels-1)
	}
	return nil
}

// empty says whether e changes nothing.
func (e *Edit) empty() bool {
	return e.NextFileNum == 0 && e.LastSeq == 0 && e.MinLog == 0 && e.NewLog == 0 && e.SealedLog == nil &&
		len(e.Removed) == 0 && len(e.Added) == 0 && len(e.Sidecars) == 0
}
