package shale

import "iter"

// Scan implements Reader.
func (db *DB) Scan(r Range) iter.Seq2[Entry, error] { return scan(r, db.NewIterator) }

// scan walks an iterator that it opens when the loop begins and closes when it
// ends, however it ends.
func scan(r Range, open func(Range) *Iterator) iter.Seq2[Entry, error] {
	r = r.clone()
	return func(yield func(Entry, error) bool) {
		it := open(r)
		defer it.Close() // the error of a movement tells more
		move, step := it.First, it.Next
		if r.Reverse {
			move, step = it.Last, it.Prev
		}
		n := 0
		for ok := move(); ok; ok = step() {
			if !yield(Entry{Key: it.Key(), Value: it.Value()}, nil) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
		if err := it.Err(); err != nil {
			yield(Entry{}, err)
		}
	}
}
