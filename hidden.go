package shale

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
)

// This file has what part of a table range deletes hide.

// hidden returns about what part of t range deletes of s hide that are newer than all of t and have numbers up to seen, and
// how many parts of the keys they cover there. It counts whole blocks, if the index is in memory. What t is clean of hides
// nothing more: a table that was counted so would be rewritten for ever, if a snapshot kept it from being clean of the last one.
func (db *DB) hidden(s *spans.Set, t *manifest.Table, seen base.Seq) (share float64, parts int) {
	table := db.tree.TablesOf([]*manifest.Table{t})[0]
	if table == nil {
		return 0, 0
	}
	var f spans.Finder
	f.Add(s)
	above := max(t.MaxSeq, t.Clean)
	for key := t.Smallest; bytes.Compare(key, t.Largest) <= 0; {
		end, hidden := f.Hidden(key, above, seen)
		if !hidden { // on to the next part that is covered at all
			next, more := s.Next(key)
			if !more {
				break
			}
			key = next
			continue
		}
		parts++
		from, known := table.Reader.Place(key)
		to := 1.0
		if end != nil && bytes.Compare(end, t.Largest) <= 0 {
			to, _ = table.Reader.Place(end)
		}
		if known {
			share += max(to-from, 0)
		}
		if end == nil {
			break
		}
		key = end
	}
	return share, parts
}
