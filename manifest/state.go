package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// A State is everything that a manifest says.
type State struct {
	Version     *Version
	StoreID     uint64       // the same in all files of a store
	NextFileNum base.FileNum // higher than all file numbers in the manifest
	LastSeq     base.Seq     // no entry in a table has a higher number; entries in logs may
	Flushed     base.Seq     // tables have all writes up to this number; 0: no edit says so, nor does the snapshot, which can say it of LastSeq only
	MinLog      base.FileNum // logs below it are obsolete
	Clock       int64        // see Edit.Clock
	Elsewhere   string       // where tables may be that are not in the directory; empty: nowhere
	Logs        []LogInfo    // logs that were announced and are not obsolete, in the order of their numbers
	Sessions    []Session    // that have led to the state, newest last, MaxSessions at most; nil: an earlier program wrote it

	// Set by Load.
	ManifestNum base.FileNum
	Length      int64  // bytes of the manifest up to the end of the last good record
	torn        bool   // an incomplete record follows: an edit that was never acknowledged
	last        int64  // offset of the last good record, for Follow
	chain       chain  // of the record that follows, for Follow
	line        string // the content of CURRENT, for Follow
}

// A LogInfo is what the manifest says about a log. Length and LastSeq are known when the log
// is sealed.
type LogInfo struct {
	Num     base.FileNum
	Sealed  bool
	Length  int64
	LastSeq base.Seq
}

// Apply returns the state after e. v is the version after e, which the caller has computed. s
// does not change.
func (s *State) Apply(e *Edit, v *Version) (*State, error) {
	next := *s
	next.Logs = slices.Clone(s.Logs)
	if err := next.applyCounters(e); err != nil {
		return nil, err
	}
	next.Version = v
	return &next, nil
}

// applyCounters applies the parts of e that are not about tables. If e contradicts s, it
// returns an error and s does not change. It changes s.Logs in place, because a manifest may
// have edits about many logs, and a copy for each would be slow.
//
// The order is that of Edit: NewLog, SealedLog, MinLog. So one edit can announce a log and
// seal it, and a log that becomes obsolete is sealed before it leaves the list.
func (s *State) applyCounters(e *Edit) error {
	logs := s.Logs
	minLog := max(s.MinLog, e.MinLog)
	if n := e.NewLog; n != 0 {
		// Log numbers ascend, and none comes back after it was obsolete.
		if n < s.MinLog || len(logs) > 0 && logs[len(logs)-1].Num >= n {
			return fmt.Errorf("log %s is announced after later ones", n)
		}
		logs = append(logs, LogInfo{Num: n})
	}
	// A log that is obsolete already is not in the list any more, and its length is of no
	// use.
	if sealed := e.SealedLog; sealed != nil && sealed.Num >= s.MinLog {
		i, there := findLog(logs, sealed.Num)
		if !there || logs[i].Sealed {
			return fmt.Errorf("log %s is sealed but was not open", sealed.Num)
		}
		logs[i] = LogInfo{Num: sealed.Num, Sealed: true, Length: sealed.Length, LastSeq: sealed.LastSeq}
	}
	first, _ := findLog(logs, minLog)
	// nil, like in a State that never had a log, so that equal states compare equal.
	if logs = logs[first:]; len(logs) == 0 {
		logs = nil
	}
	if e.MinLog != 0 && s.MinLog != 0 {
		// The edit makes logs obsolete, because all writes up to LastSeq are in tables. The first edit of a manifest
		// has the same fields, but its LastSeq also counts writes that are only in logs.
		s.Flushed = e.LastSeq
	}
	s.Logs, s.MinLog = logs, minLog
	// Numbers that e uses are used up, even if its NextFileNum does not say so.
	s.NextFileNum = max(s.NextFileNum, e.NextFileNum, e.NewLog+1, e.MinLog)
	s.LastSeq = max(s.LastSeq, e.LastSeq)
	s.Clock = max(s.Clock, e.Clock)
	if e.Elsewhere != "" {
		s.Elsewhere = e.Elsewhere
	}
	s.Sessions = append(s.Sessions[:len(s.Sessions):len(s.Sessions)], e.Sessions...)
	for _, a := range e.Added {
		s.NextFileNum = max(s.NextFileNum, a.Table.Num+1)
		s.LastSeq = max(s.LastSeq, a.Table.MaxSeq)
		if side := a.Table.Sidecar; side != nil {
			s.NextFileNum = max(s.NextFileNum, side.Num+1)
		}
	}
	for _, b := range e.Sidecars {
		s.NextFileNum = max(s.NextFileNum, b.Sidecar.Num+1)
	}
	return nil
}

// findLog returns the index of the first log with a number of at least num, and whether its
// number is num.
func findLog(logs []LogInfo, num base.FileNum) (i int, there bool) {
	return slices.BinarySearchFunc(logs, num, func(l LogInfo, n base.FileNum) int { return cmp.Compare(l.Num, n) })
}

// tablesAnEdit is the largest number of tables in one record of a snapshot. So a large store
// needs no large records.
const tablesAnEdit = 256

// snapshot calls fn for the edits that lead from the empty state to s. Only the first has
// NextFileNum: see Salvaged.try. fn must not keep an edit.
func (s *State) snapshot(fn func(*Edit) error) error {
	first := &Edit{NextFileNum: s.NextFileNum, LastSeq: s.LastSeq, MinLog: s.MinLog, Sessions: s.Sessions, Clock: s.Clock, Elsewhere: s.Elsewhere}
	if err := fn(first); err != nil {
		return err
	}
	if s.Flushed == s.LastSeq && s.Flushed > 0 && s.MinLog > 0 {
		if err := fn(&Edit{MinLog: s.MinLog, LastSeq: s.Flushed}); err != nil { // see State.Flushed
			return err
		}
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
	// The tables, in records of at most tablesAnEdit. fn encodes a batch before it is filled
	// again.
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
	if len(batch.Added) > 0 {
		if err := fn(batch); err != nil {
			return err
		}
	}
	// The range deletes, in records of a limited length too.
	some := new(Edit)
	for f := range s.Version.Spans.All() {
		if some.Spans = some.Spans.Add(f); some.Spans.Bytes() < spansAnEdit {
			continue
		}
		if err := fn(some); err != nil {
			return err
		}
		some = new(Edit)
	}
	if some.Spans.Empty() {
		return nil
	}
	return fn(some)
}

// spansAnEdit is about how many bytes of range deletes one record of a snapshot has.
const spansAnEdit = 64 << 10

// A builder applies the edits of a manifest one after the other. Each costs time in
// proportion to its own size. Version.Apply would take time in proportion to the levels that
// it changes. Only version, at the end, builds a Version.
type builder struct {
	levels [NumLevels]map[base.FileNum]Added
	spans  *spans.Set
}

// apply applies the changes of e to the tables: removals first, then additions, then
// sidecars, as Edit says. A table may be removed from one level and added to another.
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
	for _, f := range e.Finished {
		b.spans = b.spans.Without(f.Lower, f.Upper, f.Seq)
	}
	b.spans = b.spans.Union(e.Spans)
	return nil
}

// version returns the version after all edits, and checks it.
func (b *builder) version() (*Version, error) {
	all := Edit{Spans: b.spans}
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
