package repair

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// A logs is the content of the logs of a store: stretches, in which no commit is missing,
// and gaps between them. readLogs makes it in these steps:
//
//  1. open lists the logs in the folder and those that the manifest names. It reads
//     their headers. A header says which log came before, where that one ends, and
//     with which sequence number.
//  2. read reads the records of one log after the other. link first compares it
//     with the log before.
//  3. record adds each commit to a stretch. Damage ends the stretch and becomes a gap.
//
// judge then decides which of the gaps have cost commits.
type logs struct {
	s     *survey
	files []*logFile // in the folder or named by the manifest, ascending; without unused ones
	items []item     // of all files, in the order of the commits
	marks []mark     // of ingestions, in the order of the commits
	alone bool       // no program writes to the store, so the manifest has what the logs mark

	records uint64 // records that were read, and their bytes
	bytes   int64
}

// A logFile is a log, and what is known of it.
type logFile struct {
	num    base.FileNum
	there  bool // the file is in the folder
	header wal.Header
	err    error // of reading the header
	// headerFinding is the finding of err, if isFirst: then only the header is damaged,
	// and no gap was added for it.
	headerFinding int
	known         int64 // length in bytes that the next log or the manifest states, or -1
	result        wal.Result
	first         int // index in logs.items of its first item
}

// An item is a stretch or a gap.
type item struct {
	log     *logFile
	stretch *stretch // nil if the item is a gap

	// For gaps only.
	front   bool         // it is before the commits of log
	since   base.FileNum // oldest log of which it may have cost commits
	finding int          // index in survey.findings; -1: obsolete logs may have been removed here
	closed  bool         // it has cost nothing
	flushed bool         // all commits before it and in it are in tables
}

// A stretch is a row of commits of one log, none of which is missing: their sequence
// numbers follow each other.
type stretch struct {
	first, last base.Seq
	commits     uint64
	entries     uint64
	samples     [][]byte // some of the keys; copies
}

// A mark says that an ingestion wrote tables with keys from least to greatest, and took a
// sequence number. Logs have nothing else of it. All commits before it were in tables by
// then: see overtaken.
type mark struct {
	log             base.FileNum
	seq             base.Seq
	least, greatest []byte
}

// overtaken reports whether the entry may be older than a value that an ingestion has set.
// Numbers do not tell: a merge to the last level sets that of the value to 0. But then a
// table has had the entry too, or what has replaced it there.
func (l *logs) overtaken(key base.InternalKey) bool {
	return slices.ContainsFunc(l.marks, func(m mark) bool {
		return key.Trailer.Seq() < m.seq && bytes.Compare(m.least, key.UserKey) <= 0 && bytes.Compare(key.UserKey, m.greatest) <= 0
	})
}

// maxSamples is how many keys a report shows as examples.
const maxSamples = 3

// readLogs reads all logs that may be live, and older ones that are still in the folder.
// With skipNewest it leaves out the newest, because a program is writing to it.
func readLogs(s *survey, skipNewest bool) (*logs, error) {
	l := &logs{s: s, alone: !skipNewest}
	if err := l.open(); err != nil {
		return nil, err
	}
	if n := len(l.files); skipNewest && n > 0 {
		l.files = l.files[:n-1]
	}
	var before *logFile
	for _, f := range l.files {
		if err := l.read(f, before); err != nil {
			return nil, err
		}
		before = f
	}
	return l, nil
}

// minLog returns the number of the first log that may be live.
func (l *logs) minLog() base.FileNum {
	if l.s.state == nil {
		return 0
	}
	return l.s.state.MinLog
}

// session returns the session that must have written log num, or 0 if it is not known.
func (l *logs) session(num base.FileNum) uint64 {
	if l.s.state == nil {
		return 0
	}
	return l.s.state.SessionOf(num)
}

// announced returns what the manifest states of log num, or nil if it does not
// name it as live.
func (l *logs) announced(num base.FileNum) *manifest.LogInfo {
	if l.s.state == nil {
		return nil
	}
	for i := range l.s.state.Logs {
		if info := &l.s.state.Logs[i]; info.Num == num && num >= l.minLog() {
			return info
		}
	}
	return nil
}

// open fills files: it reads the headers, and learns from each where the log
// before it ends.
func (l *logs) open() error {
	nums := slices.Clone(l.s.logs)
	if l.s.state != nil {
		for _, info := range l.s.state.Logs {
			if info.Num >= l.minLog() && !slices.Contains(nums, info.Num) {
				nums = append(nums, info.Num)
			}
		}
	}
	slices.Sort(nums)
	for _, num := range nums {
		f := &logFile{num: num, there: slices.Contains(l.s.logs, num), known: -1}
		if f.there {
			f.header, f.err = wal.ReadHeader(l.s.fs, l.s.dir, num, l.s.storeID, l.session(num))
			if gone(f.err) {
				f.there, f.err = false, nil
			}
			if f.err != nil && !isDamage(f.err) {
				return fmt.Errorf("repair: %w", f.err)
			}
		}
		if info := l.announced(num); info != nil && info.Sealed {
			f.known = info.Length
		}
		l.files = append(l.files, f)
	}
	for _, f := range l.files {
		// A log states the length of the log before it. Less than that is a gap, and what
		// follows is not part of the log.
		if prev := l.file(f.header.Prev); prev != nil && f.there && f.err == nil {
			prev.known = f.header.PrevLen
		}
	}
	l.files = slices.DeleteFunc(l.files, l.unused)
	return nil
}

// gone reports whether err shows that a writer has removed the log, or cut it to use it
// again, since the folder was listed.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF)
}

// file returns the log num, or nil.
func (l *logs) file(num base.FileNum) *logFile {
	for _, f := range l.files {
		if f.num == num && num != 0 {
			return f
		}
	}
	return nil
}

// unused reports whether the log was being created when a crash came, so that nothing was
// written to it. It makes a finding of such a log.
func (l *logs) unused(f *logFile) bool {
	if !errors.Is(f.err, wal.ErrNeverUsed) || l.announced(f.num) != nil || f.known >= 0 {
		return false
	}
	l.s.add(Finding{File: base.LogName(f.num), Offset: -1, Err: wal.ErrNeverUsed})
	return true
}

// read adds the items of one log. before is the log before it in files, or nil.
func (l *logs) read(f, before *logFile) error {
	f.first = len(l.items)
	if !f.there {
		l.gap(f, missing(base.LogName(f.num), "log named by the manifest"))
		l.front(f.num, before)
		return nil
	}
	if errors.Is(f.err, wal.ErrAnother) {
		l.gap(f, f.err)
		l.front(f.num, before)
		return nil
	}
	l.link(f, before)
	header := f.err // wal.Read reports it to Damaged first
	var err error
	f.result, err = wal.Read(l.s.fs, l.s.dir, f.num, l.s.storeID, wal.ReadOptions{
		Known:   f.known,
		Salvage: true,
		Damaged: func(err error) {
			if header == nil {
				l.gap(f, err)
			}
			header = nil
		},
	}, func(payload []byte) error { return l.record(f, payload) })
	if gone(err) {
		f.there = false
		l.gap(f, missing(base.LogName(f.num), "log"))
		return nil
	}
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	if f.err != nil && f.result.Records == 0 && l.items[f.first].removed() {
		// Not only the header is damaged. There may have been commits, and nothing
		// shows that the log was empty.
		l.s.findings[f.headerFinding].Harm = LostCommits
		l.items[f.first].finding = f.headerFinding
	}
	// The source returns zeros for what the device cannot read. Zeros at the end of a log
	// look like its end, but commits may be lost there.
	if u, unread := l.s.fs.unreadIn(base.LogName(f.num)); unread && u.offset >= f.result.Length && !f.result.Sealed {
		l.gap(f, base.Corruption(base.LogName(f.num), u.offset, "log record", u.err))
	}
	l.records += f.result.Records
	l.bytes += f.result.Length
	return nil
}

// link adds a gap before the commits of f, unless it is known that they follow
// those of the log before.
func (l *logs) link(f, before *logFile) {
	name, prev := base.LogName(f.num), f.header.Prev
	switch {
	case f.err != nil && l.isFirst(f):
		f.headerFinding = l.s.add(found(name, f.err, Redundant))
		l.items = append(l.items, item{log: f, front: true, since: f.num, finding: -1})
	case f.err != nil:
		l.gap(f, f.err)
		l.front(f.num, before)
	case before != nil && before.num == prev || before == nil && prev == 0:
		// Nothing is missing. If before ends too early, read has added a gap at its end.
	case prev < l.minLog() || l.s.state == nil:
		l.items = append(l.items, item{log: f, front: true, since: f.num, finding: -1})
	default:
		l.gap(f, missing(base.LogName(prev), "log before "+name))
		l.front(prev, before)
	}
}

// front marks the last item as a gap before its log. The gap begins in log since, or in the
// log before, if it is unknown where that one ends.
func (l *logs) front(since base.FileNum, before *logFile) {
	it := &l.items[len(l.items)-1]
	it.front, it.since = true, since
	if before != nil && !before.result.Sealed && before.known < 0 {
		it.since = before.num
	}
}

// isFirst reports whether the manifest says that f is the oldest live log.
func (l *logs) isFirst(f *logFile) bool {
	if l.s.state == nil {
		return false
	}
	named := l.s.state.Logs
	return f.num == l.minLog() || len(named) > 0 && named[0].Num == f.num
}

// gap adds a gap with a finding. judge completes the finding.
func (l *logs) gap(f *logFile, err error) {
	i := l.s.add(found(base.LogName(f.num), err, LostCommits))
	l.items = append(l.items, item{log: f, since: f.num, finding: i})
}

// record adds a commit to the current stretch, or begins one. A batch that cannot be
// decoded is a gap, and so is a sequence number that has come before. A number that is left
// out is none: a write has failed, or a crash has taken the mark of an ingestion. But a mark
// without its tables is one. A manifest that is damaged in the middle leads to that.
func (l *logs) record(f *logFile, payload []byte) error {
	first, b, err := shale.DecodeBatch(payload)
	switch {
	case errors.Is(err, shale.ErrFormatTooNew):
		return fmt.Errorf("%s: %w", base.LogName(f.num), err)
	case err != nil:
		l.gap(f, base.Corruption(base.LogName(f.num), -1, "batch", err))
		return nil
	case b.Len() == 0:
		return nil
	}
	seq := base.Seq(first)
	if least, greatest, ok := b.Ingested(); ok {
		if l.alone && l.s.state != nil && seq > l.s.state.LastSeq {
			l.gap(f, base.Corruption(base.LogName(f.num), -1, "ingestion",
				fmt.Errorf("the manifest does not have the tables of number %d", seq)))
			return nil
		}
		l.marks = append(l.marks, mark{f.num, seq, bytes.Clone(least), bytes.Clone(greatest)})
	}
	var at *stretch
	// Stretches do not continue from one log to the next: link decides what lies between.
	if n := len(l.items); n > f.first {
		at = l.items[n-1].stretch
	}
	if at != nil && seq <= at.last {
		l.gap(f, base.Corruption(base.LogName(f.num), -1, "batch", fmt.Errorf("sequence number %d comes again", seq)))
		at = nil
	}
	if at == nil || seq > at.last+1 {
		at = &stretch{first: seq}
		l.items = append(l.items, item{log: f, stretch: at})
	}
	at.last = seq + base.Seq(b.Len()) - 1
	at.commits++
	for op := range b.Ops() {
		at.entries++
		if op.Kind != shale.OpDeleteRange && len(at.samples) < maxSamples {
			at.samples = append(at.samples, bytes.Clone(op.Key))
		}
	}
	return nil
}
