package cluster

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

// Which indexes the log has: from the first to the last, without a hole. They are read from the store once.

// A span is the indexes from from up to, not including, to.
//
// Spans are half-open, so that an empty log has a place too.
type span struct{ from, to uint64 }

// The methods are plain arithmetic. touches is true for spans that overlap, and for two that lie
// side by side. last is for spans that are not empty.
func (s span) empty() bool             { return s.from >= s.to }
func (s span) contains(i uint64) bool  { return s.from <= i && i < s.to }
func (s span) len() uint64             { return s.to - s.from }
func (s span) String() string          { return fmt.Sprintf("[%d, %d)", s.from, s.to) }
func (s span) touches(other span) bool { return s.from <= other.to && other.from <= s.to }
func (s span) last() (i uint64)        { return s.to - 1 }

// log returns the bounds of the log, and reads them first if nobody has.
func (s *LogStore) log() (span, error) {
	if log := s.bounds.Load(); log != nil {
		return *log, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readBounds()
}

// readBounds returns the bounds of the log, and reads them first if nobody has. Requires: s.mu.
func (s *LogStore) readBounds() (span, error) {
	if log := s.bounds.Load(); log != nil {
		return *log, nil
	}
	log, err := findBounds(s.db)
	if err != nil {
		return span{}, err
	}
	s.bounds.Store(&log)
	return log, nil
}

// findBounds finds the bounds of the log in its store: the first index is the one that DeleteRange has
// written, or else that of the first entry.
//
// Two scans of one entry each find the ends, whatever the size of the log. Entries below the first
// index may still be in the store, because DeleteRange leaves them for later; so the newest entry
// may be one of them, and then the log is empty.
func findBounds(db *shale.DB) (log span, err error) {
	value, err := db.Get([]byte(firstKey))
	switch {
	case err == nil:
		if log.from, err = decodeFirst(value); err != nil {
			return span{}, err
		}
	case !errors.Is(err, shale.ErrNotFound):
		return span{}, fmt.Errorf("cluster: read the first index of the log: %w", err)
	}
	entries := shale.Prefix([]byte{entryPrefix})
	entries.KeysOnly = true
	ends := entries.Reversed()
	ends.Limit = 1
	log.to = log.from
	for i, err := range indexes(db, ends) {
		if err != nil {
			return span{}, err
		}
		log.to = max(log.from, i+1)
	}
	ends = entries
	ends.Lower, ends.Limit = appendEntryKey(nil, log.from), 1
	for i, err := range indexes(db, ends) {
		if err != nil {
			return span{}, err
		}
		log.from = i
	}
	return log, nil
}

// indexes walks the indexes of the entries in a range of the store.
func indexes(db *shale.DB, r shale.Range) func(yield func(uint64, error) bool) {
	return func(yield func(uint64, error) bool) {
		for e, err := range db.Scan(r) {
			var i uint64
			if err == nil {
				i, err = decodeEntryKey(e.Key)
			} else {
				err = fmt.Errorf("cluster: read the bounds of the log: %w", err)
			}
			if !yield(i, err) || err != nil {
				return
			}
		}
	}
}

// addSpan adds more to spans, and returns the longer slice. It joins more with the last span if they
// touch.
func addSpan(spans []span, more span) []span {
	if more.empty() {
		return spans
	}
	if n := len(spans); n > 0 && spans[n-1].touches(more) {
		last := &spans[n-1]
		last.from, last.to = min(last.from, more.from), max(last.to, more.to)
		return spans
	}
	return append(spans, more)
}
