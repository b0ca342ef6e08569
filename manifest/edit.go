package manifest

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// An Edit is one step from a version to the next. It also has what the store must remember
// about its logs and counters. It takes effect as a whole or not at all. Fields that are zero
// change nothing.
//
// Within an edit, removals come before additions, so a table can move to another level and
// keep its number. Additions come before Sidecars. NewLog comes before SealedLog, and that
// before MinLog.
type Edit struct {
	// NextFileNum says that all lower file numbers are used up. Every edit that is appended
	// after a snapshot has it. So Salvage can see by the first such edit that the snapshot
	// before it is whole.
	NextFileNum base.FileNum
	// LastSeq says that the sequence numbers up to it are used up.
	LastSeq base.Seq
	// MinLog says that logs with lower numbers are obsolete: their entries are in tables.
	MinLog base.FileNum
	// NewLog announces a log. The edit is written after the log's directory entry is durable,
	// because a missing file counts as damage after that.
	NewLog base.FileNum
	// SealedLog states the final length of a log that was announced before.
	SealedLog *SealedLog

	Removed []Removed
	Added   []Added
	// Sidecars gives new sidecars to tables that the store has already. A table in Added has
	// its sidecar in its own description.
	Sidecars []SidecarChange
	// Spans are range deletes that come. Their numbers are not above LastSeq.
	Spans *spans.Set
	// Finished says which numbers of range deletes leave. They leave before Spans come.
	Finished []Finished
	// Clock is the greatest time, in milliseconds since the beginning of 1970, by which entries of
	// the edit's tables were dropped because they had expired.
	Clock int64
	// Elsewhere says, for people, where tables are that the directory lacks. Empty: the edit
	// does not change that.
	Elsewhere string
	// Sessions are those that have led to the state before the first edit that is appended, oldest
	// first. Only the first edit of a snapshot has them.
	Sessions []Session

	facts     []tableFacts     // while it is decoded
	fragments []spans.Fragment // of Spans, while it is decoded
}

// A SealedLog describes a log that nothing more is written to. If the file turns out to be
// shorter, it is damaged.
type SealedLog struct {
	Num     base.FileNum
	Length  int64 // in bytes, all of them durable
	LastSeq base.Seq
}

// A Removed is a table that leaves a level.
type Removed struct {
	Level int
	Num   base.FileNum
	// Table may be nil. If it is the table, or another description with the same bounds,
	// Apply finds the table by its keys and need not look at all others. It is not written to
	// the manifest.
	Table *Table
}

// An Added is a table that comes into a run of a level.
type Added struct {
	Level int
	Run   uint64
	Table *Table
}

// byLevel returns the edit's removals and additions, sorted by level and run for Apply.
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

// sidecarsByLevel returns the edit's sidecars by level and table.
func (e *Edit) sidecarsByLevel() (sidecars [NumLevels]map[base.FileNum]SidecarChange, err error) {
	for _, b := range e.Sidecars {
		if err := checkLevel(b.Level); err != nil {
			return sidecars, err
		}
		if sidecars[b.Level] == nil {
			sidecars[b.Level] = make(map[base.FileNum]SidecarChange)
		}
		sidecars[b.Level][b.Num] = b
	}
	return sidecars, nil
}

// checkLevel returns an error if there is no such level.
func checkLevel(level int) error {
	if level < 0 || level >= NumLevels {
		return fmt.Errorf("level %d is not in [0, %d]", level, NumLevels-1)
	}
	return nil
}

// ChangesVersion reports whether the version after e is another one.
func (e *Edit) ChangesVersion() bool {
	return len(e.Removed)+len(e.Added)+len(e.Sidecars)+len(e.Finished) > 0 || !e.Spans.Empty()
}

// empty reports whether e changes nothing.
func (e *Edit) empty() bool {
	return e.NextFileNum == 0 && e.LastSeq == 0 && e.MinLog == 0 && e.NewLog == 0 && e.SealedLog == nil &&
		!e.ChangesVersion() && len(e.Sessions) == 0 && e.Clock == 0 && e.Elsewhere == ""
}
