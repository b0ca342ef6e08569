package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// A State is all that a manifest says.
type State struct {
	Version     *Version
	StoreID     uint64       // the same in all files of a store
	NextFileNum base.FileNum // above every number that the manifest mentions
	LastSeq     base.Seq     // no entry of a table has a higher one; logs may
	MinLog      base.FileNum // logs below it are obsolete
	Logs        []LogInfo    // announced and not obsolete, in the order of their numbers

	// Set by Load.
	ManifestNum base.FileNum
	Length      int64 // bytes of the manifest that were understood
	torn        bool  // something incomplete stands after them: an edit that was never acknowledged
}

// A LogInfo is what the manifest knows of a log. Before it is sealed, only its
// number is known.
type LogInfo struct {
	Num     base.FileNum
	Sealed  bool
	Length  int64
	LastSeq base.Seq
}

// Apply returns the state after e, whose version is v. s stays as it is.
func (s *State) Apply(e *Edit, v *Version) (*State, error) {
	next := *s
	next.Logs = slices.Clone(s.Logs)
	if err := next.applyCounters(e); err != nil {
		return nil, err
	}
	next.Version = v
	return &next, nil
}

// applyCounters makes the changes of e other than those to tables. An edit
// that contradicts s is an error and changes nothing. Logs are changed in place:
// a manifest may tell of many.
func (s *State) applyCounters(e *Edit) error {
	logs := s.Logs
	minLog := max(s.MinLog, e.MinLog)
	if n := e.NewLog; n != 0 {
		if n < s.MinLog || len(logs) > 0 && logs[len(logs)-1].Num >= n {
			return fmt.Errorf("log %s is announced after later ones", n)
		}
		logs = append(logs, LogInfo{Num: n})
	}
	if sealed := e.SealedLog; sealed != nil && sealed.Num >= s.MinLog {
		i, there := findLog(logs, sealed.Num)
		if !there || logs[i].Sealed {
			return fmt.Errorf("log %s is sealed but was not open", sealed.Num)
		}
		logs[i] = LogInfo{Num: sealed.Num, Sealed: true, Length: sealed.Length, LastSeq: sealed.LastSeq}
	}
	first, _ := findLog(logs, minLog)
	if logs = logs[first:]; len(logs) == 0 {
		logs = nil
	}
	s.Logs, s.MinLog = logs, minLog
	s.NextFileNum = max(s.NextFileNum, e.NextFileNum, e.NewLog+1, e.MinLog)
	s.LastSeq = max(s.LastSeq, e.LastSeq)
	for _, a := range e.Added {
		s.NextFileNum = max(s.NextFileNum, a.Table.Num+1)
		s.LastSeq = max(s.LastSeq, a.Table.MaxSeq)
		if beside := a.Table.Sidecar; beside != nil {
			s.NextFileNum = max(s.NextFileNum, beside.Num+1)
		}
	}
	for _, b := range e.Sidecars {
		s.NextFileNum = max(s.NextFileNum, b.Sidecar.Num+1)
	}
	return nil
}

// findLog returns the place of the first log from num on, and whether it is num.
func findLog(logs []LogInfo, num base.FileNum) (i int, there bool) {
	return slices.BinarySearchFunc(logs, num, func(l LogInfo, n base.FileNum) int { return cmp.Compare(l.Num, n) })
}

// tablesAnEdit is how many tables a record of a snapshot holds at most, so that
// a large store needs no large records.
const tablesAnEdit = 256

// snapshot calls fn for the edits that lead from nothing to s.
func (s *State) snapshot(fn func(*Edit) error) error {
	first := &Edit{NextFileNum: s.NextFileNum, LastSeq: s.LastSeq, MinLog: s.MinLog}
	if err := fn(first); err != nil {
		return err
	}
	for _, l := range s.Logs {
		e := &Edit{NewLog: l.Num}
		if l.Sealed {
			e.SealedLog = &SealedLog{Num: l.Num, Length: l.Length, LastSeq: l.LastSeq}
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	batch := new(Edit)
	for level := range s.Version.Levels {
		for _, run := range s.Version.Levels[level].Runs {
			for _, t := range run.Tables {
				batch.Added = append(batch.Added, Added{Level: level, Run: run.ID, Table: t})
				if len(batch.Added) < tablesAnEdit {
					continue
				}
				if err := fn(batch); err != nil {
					return err
				}
				batch.Added = batch.Added[:0]
			}
		}
	}
	if len(batch.Added) == 0 {
		return nil
	}
	return fn(batch)
}

// A builder applies edits one after the other at a cost proportional to the
// edit, where Version.Apply costs as much as the levels it touches.
type builder struct {
	levels [NumLevels]map[base.FileNum]Added
}

func (b *builder) apply(e *Edit) error {
	for _, r := range e.Removed {
		if _, ok := b.levels[r.Level][r.Num]; !ok {
			return fmt.Errorf("table %s is removed from level %d but is not there", r.Num, r.Level)
		}
		delete(b.levels[r.Level], r.Num)
	}
	for _, a := range e.Added {
		if _, twice := b.levels[a.Level][a.Table.Num]; twice {
			return fmt.Errorf("table %s is added to level %d twice", a.Table.Num, a.Level)
		}
		if b.levels[a.Level] == nil {
			b.levels[a.Level] = make(map[base.FileNum]Added)
		}
		b.levels[a.Level][a.Table.Num] = a
	}
	for _, s := range e.Sidecars {
		a, ok := b.levels[s.Level][s.Num]
		if !ok {
			return fmt.Errorf("table %s of level %d gets a sidecar but is not there", s.Num, s.Level)
		}
		a.Table = a.Table.with(s.Sidecar)
		b.levels[s.Level][s.Num] = a
	}
	return nil
}

// version returns what the edits have led to.
func (b *builder) version() (*Version, error) {
	var all Edit
	for level := range b.levels {
		for _, a := range b.levels[level] {
			all.Added = append(all.Added, a)
		}
	}
	v, err := new(Version).Apply(&all)
	if err != nil {
		return nil, err
	}
	return v, v.Check()
}
