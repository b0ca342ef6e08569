package shale

import "slices"

// fitFilters releases second units of filters until the resident filters of v
// fit FilterMemory: those of the deepest level first, where most of the memory
// is, in the order of the keys. Their bytes stay in the files.
func (db *DB) fitFilters(v *version) {
	limit := db.opts.FilterMemory
	if limit <= 0 {
		return
	}
	var total int64
	var tables []*table
	for _, r := range slices.Backward(v.runs) {
		for _, t := range r.tables {
			_, filter := t.reader.MemoryBytes()
			total += filter
			tables = append(tables, t)
		}
	}
	for _, t := range tables {
		if total <= limit {
			return
		}
		_, before := t.reader.MemoryBytes()
		t.reader.DropSecondUnit()
		_, after := t.reader.MemoryBytes()
		total -= before - after
	}
}
