package shale

// This file has Footprint, what a transaction has read and written.

// A Footprint is what a transaction has read and written, for a program that commits it by other means: package cluster
// sends it to all members of a group. It is valid until the transaction is used again or ends.
type Footprint struct {
	Keys   [][]byte // what was looked up
	Ranges []Range  // what was scanned, with all between the entries, in order; each as far as the scans went
	Before Reader   // the state that was read, without the writes
	Writes *Batch   // empty: nothing was written
}

// FootprintOf returns what a transaction has read and written so far. As with Commit, keys that it had written itself
// before count as read only if a scan went over them, and what was read by way of Untracked does not count. After very
// many reads there are ranges in place of keys, which also have keys that were not read.
func FootprintOf(tx *Txn) (Footprint, error) {
	if err := tx.enter(); err != nil {
		return Footprint{}, err
	}
	defer tx.leave()
	tx.looked = true // the caller may read Before
	f := Footprint{Before: &tx.snapshot, Writes: new(Batch)}
	if !tx.writable {
		return f, nil // nothing was remembered
	}
	f.Writes = &tx.batch
	for _, w := range tx.watches {
		w.Flush()
	}
	for key := range tx.reads.Keys() {
		f.Keys = append(f.Keys, key)
	}
	for _, sp := range tx.reads.Spans() {
		f.Ranges = append(f.Ranges, Range{Lower: sp.Lower, Upper: sp.Bound()})
	}
	return f, nil
}
