package repair

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// A verdict says which commits of the logs are proven.
type verdict struct {
	proven, left []item // stretches
	// asOf is the last commit of the state that is proven. If exact is not set,
	// that state may be of some later commit.
	asOf  base.Seq
	exact bool
}

// judge decides which commits are proven. flushed is a number that the tables
// reach at least: what is not newer is in them.
//
// Commits are proven if the state that they lead to is one that the store was
// in. The tables are such a state, so the logs count up to the first gap. The
// live logs begin where the tables end, or before: there may be commits in them
// that are in tables too. To apply these again does no harm, as long as all that
// the tables have are applied again, for a merge to the last level wipes out
// numbers and deletions. So a gap before the end of what is in tables leaves
// the tables alone.
func (l *logs) judge(flushed base.Seq) verdict {
	l.closeGaps(flushed)
	if l.s.state == nil {
		return l.judgeAlone()
	}
	start := slices.IndexFunc(l.items, func(it item) bool { return it.log.num >= l.minLog() && !it.removed() })
	begin := l.begin()
	known := begin > 0 || l.s.state.Version.NumTables() == 0 // up to where the tables reach
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
			start = i + 1 // what is in front is in tables, and is no unbroken row any more
		}
	}
	taken := stretches(l.items[start:stop])
	v.asOf, v.exact = max(v.asOf, lastOf(taken)), known || len(taken) > 0
	v.proven = append(l.contiguousBefore(start), taken...)
	if stop == len(l.items) {
		return v
	}
	v.left = stretches(l.items[stop:])
	if !l.unflushedSince(l.items[stop].since) || flushed > max(begin, lastOf(taken)) {
		v.left, v.proven = append(taken, v.left...), nil
		v.asOf, v.exact = max(begin, flushed), false
	}
	return v
}

// judgeAlone is judge without tables: the newest version in the last commits that
// follow each other without a gap is the newest one of its key.
func (l *logs) judgeAlone() verdict {
	v := verdict{exact: true}
	end := len(l.items)
	for end > 0 && l.items[end-1].stretch == nil {
		end--
	}
	start := end
	for start > 0 && !l.items[start-1].open() {
		start--
	}
	v.proven, v.left = stretches(l.items[start:end]), stretches(l.items[:start])
	v.asOf = lastOf(v.proven)
	return v
}

func (it *item) open() bool { return it.stretch == nil && !it.closed && !it.flushed }

// removed tells of a gap where obsolete logs may have been removed.
func (it *item) removed() bool { return it.stretch == nil && it.finding < 0 }

func stretches(items []item) (list []item) {
	for _, it := range items {
		if it.stretch != nil {
			list = append(list, it)
		}
	}
	return list
}

func lastOf(list []item) base.Seq {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].stretch.last
}

// begin returns the last number before the first live log, or 0.
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

// contiguousBefore returns the stretches of obsolete logs that lead up to the live
// ones without a gap. What they hold is in tables too, unless those are damaged.
func (l *logs) contiguousBefore(start int) []item {
	first := start
	for first > 0 && !l.items[first-1].open() && !l.items[first-1].flushed {
		first--
	}
	return stretches(l.items[first:start])
}

// unflushedSince tells whether no commit of log num or a later one can be in a
// table. A log stays live beyond the flush of its first commits only if it was
// replayed into several memtables. Whoever replays it begins a manifest and a log
// first: so it is not the newest, and the flush takes a number behind these.
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

// closeGaps finds the gaps that have cost nothing, because of the numbers on
// either side, and completes the findings of the others.
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
		f.FirstSeq = uint64(max(last, flushed)) + 1
		if next != 0 {
			f.LastSeq = uint64(next) - 1
		}
	}
}

// seqBefore returns the last number in front of gap i, if it is known.
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

// seqAfter returns the first number that is not in gap i any more, or 0.
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
	if info := l.announced(f.num); info != nil && info.Sealed {
		return info.LastSeq + 1
	}
	if rest != nil {
		return rest[0].stretch.first
	}
	return 0
}
