package repair

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// A verdict says which commits of the logs are proven.
type verdict struct {
	proven, left []item // stretches, in order; no gaps
	// asOf is the sequence number of the state that is proven. If exact is false, that
	// state may have some later commits, whose numbers are lost.
	asOf  base.Seq
	exact bool
}

// judge decides which commits are proven. flushed is the highest sequence number of the
// tables: all commits up to it are in tables, or in damaged parts of tables.
//
// Commits are proven if the store was once in the state to which they lead. The tables
// alone are such a state, and so are the tables and all commits of the logs up to the first
// gap. judge takes these steps:
//
//  1. closeGaps looks at the sequence numbers on both sides of each gap, and marks the
//     gaps that have cost nothing.
//  2. Without a manifest there are no tables, and judgeAlone decides.
//  3. The commits from the first live log to the first open gap are taken.
//  4. The commits behind that gap are left.
//  5. If the tables may hold some commits of the gap, or commits behind it, the commits of
//     step 3 are left too, and the tables alone are the state.
//
// Step 5 is needed because the live logs may begin before the end of the tables: some of
// their commits may be in tables too. It does no harm to apply these again, but only if all
// of them are applied. A merge to the last level sets sequence numbers to 0 and drops
// deletions. So an older value from a log would win over a newer one that only a table has.
func (l *logs) judge(flushed base.Seq) verdict {
	l.closeGaps(flushed)
	if l.s.state == nil {
		return l.judgeAlone()
	}
	// start is the first item that is in a live log, or a gap in it.
	start := slices.IndexFunc(l.items, func(it item) bool { return it.log.num >= l.minLog() && !it.removed() })
	begin := l.begin()
	known := begin > 0 || l.s.state.Version.NumTables() == 0 // how far the tables reach
	// There is no live log: the tables are the state.
	if start < 0 {
		return verdict{asOf: max(begin, flushed), exact: known}
	}
	stop := start
	for stop < len(l.items) && !l.items[stop].open() {
		stop++
	}
	v := verdict{asOf: max(begin, flushed)}
	for i := start; i < stop; i++ {
		if l.items[i].flushed {
			start = i + 1 // what is before it is in tables, and not contiguous
		}
	}
	taken := stretches(l.items[start:stop])
	v.asOf, v.exact = max(v.asOf, lastOf(taken)), known || len(taken) > 0
	// Obsolete logs help if a table is damaged that has their commits.
	v.proven = append(l.contiguousBefore(start), taken...)
	if stop == len(l.items) {
		return v
	}
	v.left = stretches(l.items[stop:])
	// Step 5: a commit that is in a table may be in the gap or behind it.
	if !l.unflushedSince(l.items[stop].since) || flushed > max(begin, lastOf(taken)) {
		v.left, v.proven = append(taken, v.left...), nil
		v.asOf, v.exact = max(begin, flushed), false
	}
	return v
}

// judgeAlone is judge without tables. The commits at the end that follow each other without
// a gap are proven: the newest version of a key among them is the newest of all. No sequence
// number may be left out, since it may be that of an ingestion.
func (l *logs) judgeAlone() verdict {
	v := verdict{exact: true}
	end := len(l.items)
	// A gap at the end only makes the state an earlier one of the store.
	for end > 0 && l.items[end-1].stretch == nil {
		end--
	}
	start := l.unbrokenBefore(end, 0)
	v.proven, v.left = stretches(l.items[start:end]), stretches(l.items[:start])
	v.asOf = lastOf(v.proven)
	return v
}

// open reports whether the item is a gap that may have cost commits.
func (it *item) open() bool { return it.stretch == nil && !it.closed && !it.flushed }

// removed reports whether the item is a gap in which obsolete logs may have been
// removed. Such a gap is no damage.
func (it *item) removed() bool { return it.stretch == nil && it.finding < 0 }

// stretches returns the items that are stretches.
func stretches(items []item) (list []item) {
	for _, it := range items {
		if it.stretch != nil {
			list = append(list, it)
		}
	}
	return list
}

// lastOf returns the last sequence number of a list of stretches, or 0.
func lastOf(list []item) base.Seq {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].stretch.last
}

// begin returns the last sequence number before the first live log, or 0 if it is unknown.
func (l *logs) begin() base.Seq {
	for _, f := range l.files {
		if f.num < l.minLog() {
			continue
		}
		if f.there && f.err == nil && (f.header.Prev < l.minLog() || f.header.Prev == 0) {
			return f.header.PrevSeq
		}
		break
	}
	return 0
}

// contiguousBefore returns the stretches of obsolete logs that lead up to the live ones
// without a gap. Their commits are in tables too, unless those are damaged. start is
// the first item of a live log. An ingestion without a mark may be newer than they are. So no
// number may be left out between them and the live ones, or the last one that the manifest knows.
func (l *logs) contiguousBefore(start int) []item {
	next := l.s.state.LastSeq + 1
	if start < len(l.items) && l.items[start].stretch != nil {
		next = l.items[start].stretch.first
	}
	return stretches(l.items[l.unbrokenBefore(start, next):start])
}

// unbrokenBefore returns the index of the first of the items before end that follow each other,
// without an open gap and without a sequence number that is left out. next is the number that
// follows them; 0: any.
func (l *logs) unbrokenBefore(end int, next base.Seq) (first int) {
	for first = end; first > 0; first-- {
		it := &l.items[first-1]
		if it.open() || it.flushed {
			break
		}
		if it.stretch != nil {
			if next != 0 && it.stretch.last+1 != next {
				break
			}
			next = it.stretch.first
		}
	}
	return first
}

// unflushedSince reports whether no commit of log num, or of a later log, can be
// in a table.
//
// A log stays live after its first commits were flushed only if it was replayed into
// several memtables. A program that replays it first begins a manifest and a log, and the
// flush takes a file number after these. So the log is not the newest one then, and the
// numbers of files show what has happened.
func (l *logs) unflushedSince(num base.FileNum) bool {
	next, later := l.s.state.NextFileNum, false
	for _, f := range l.files {
		if f.num <= num || f.num >= next {
			continue
		}
		if f.num != num+2 {
			return false
		}
		num, later = f.num, true
	}
	return !later || next <= num+1
}

// closeGaps marks the gaps that have cost nothing, and makes their findings
// Redundant. A gap is closed if the sequence numbers on both sides follow each other.
// It is flushed if all numbers in it are in tables. The other gaps get the numbers
// that are lost, for their findings.
func (l *logs) closeGaps(flushed base.Seq) {
	for i := range l.items {
		it := &l.items[i]
		if it.stretch != nil || it.removed() {
			continue
		}
		last, known := l.seqBefore(i)
		next := l.seqAfter(i)
		it.closed = next != 0 && known && next <= last+1
		it.flushed = next != 0 && !it.closed && next <= flushed+1
		f := &l.s.findings[it.finding]
		if it.closed || it.flushed {
			f.Harm = Redundant
			continue
		}
		// Numbers up to flushed are in tables, so at most those behind it are lost.
		f.FirstSeq = uint64(max(last, flushed)) + 1
		if next != 0 {
			f.LastSeq = uint64(next) - 1
		}
	}
}

// seqBefore returns the last sequence number before gap i. known is false if there may
// be later ones before the gap.
func (l *logs) seqBefore(i int) (last base.Seq, known bool) {
	if it := l.items[i]; !it.front && it.log.there && it.log.err == nil {
		last, known = it.log.header.PrevSeq, true
	}
	for j := i - 1; j >= 0; j-- {
		if s := l.items[j].stretch; s != nil {
			return max(last, s.last), true
		}
	}
	return last, known
}

// seqAfter returns the first sequence number behind gap i, or 0 if it is unknown. It comes
// from the header of the gap's log, from the next commit of the same log, from the header
// of the next log, from the manifest, or from the next commit of any log, in this order.
func (l *logs) seqAfter(i int) base.Seq {
	f := l.items[i].log
	if l.items[i].front && f.there && f.err == nil {
		return f.header.PrevSeq + 1
	}
	var rest []item
	for j := i + 1; j < len(l.items) && rest == nil; j++ {
		if l.items[j].stretch != nil {
			rest = l.items[j : j+1]
		}
	}
	if rest != nil && rest[0].log == f {
		return rest[0].stretch.first
	}
	n := slices.Index(l.files, f)
	if n+1 < len(l.files) {
		if next := l.files[n+1]; next.there && next.err == nil && next.header.Prev == f.num {
			return next.header.PrevSeq + 1
		}
	}
	// The next log may be missing. The manifest knows where sealed logs end.
	if info := l.announced(f.num); info != nil && info.Sealed {
		return info.LastSeq + 1
	}
	if rest != nil {
		return rest[0].stretch.first
	}
	return 0
}
