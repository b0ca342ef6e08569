package manifest

import (
	"bytes"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// This file has the check of what a manifest says of a table against the entries of the table.

// An Audit is given all entries of a table, and compares them with what the manifest says of it: counts, bounds and numbers, how
// many entries expire, when the first and the last one does, and that it is clean. Of when each eighth is over the manifest
// says only about when.
type Audit struct {
	want, got Table
	deletes   spans.Finder
	last      []byte
	err       error // about Clean
}

// Begin begins an audit of t, which is of a version with these range deletes.
func (a *Audit) Begin(t *Table, deletes *spans.Set) {
	*a = Audit{want: *t, got: Table{Num: t.Num, Size: t.Size, FilterBits: t.FilterBits, Sidecar: t.Sidecar}}
	a.got.Facts = Facts{Clean: t.Clean, Expiry: new([9]int64)}
	if t.Expiry != nil {
		*a.got.Expiry = *t.Expiry
	}
	if t.Clean > 0 {
		a.deletes.Add(deletes)
	}
}

// Entry takes the next entry, in the order of the table.
func (a *Audit) Entry(key base.InternalKey, value []byte) {
	t, seq := &a.got, key.Seq()
	if t.Entries == 0 {
		t.Smallest, t.MinSeq = bytes.Clone(key.UserKey), seq
	}
	if t.Entries == 0 || !bytes.Equal(a.last, key.UserKey) {
		t.Keys++
	}
	t.Entries++
	t.MinSeq, t.MaxSeq = min(t.MinSeq, seq), max(t.MaxSeq, seq)
	t.RawKeyBytes += uint64(len(key.UserKey))
	t.RawValueBytes += uint64(len(value))
	switch key.Kind() {
	case base.KindDelete:
		t.Tombstones++
	case base.KindExpiring:
		ms, _ := base.CutExpiry(value)
		if t.Expiring == 0 {
			t.Expiry[0], t.Expiry[8] = ms, ms
		}
		t.Expiring++
		t.Expiry[0], t.Expiry[8] = min(t.Expiry[0], ms), max(t.Expiry[8], ms)
	}
	if n := a.deletes.LeastAbove(key.UserKey, seq); n > 0 && n <= a.want.Clean && a.err == nil {
		a.err = fmt.Errorf("entry %s is below a range delete of number %d, and the manifest says that the table is clean up to %d", key, n, a.want.Clean)
	}
	a.last = append(a.last[:0], key.UserKey...)
}

// End returns what the manifest says otherwise than the entries, as damage, or nil.
func (a *Audit) End() error {
	got, want, err := a.got, a.want, a.err
	got.Largest = a.last
	if got.describe() != want.describe() || got.RawKeyBytes != want.RawKeyBytes || got.RawValueBytes != want.RawValueBytes {
		err = fmt.Errorf("the manifest says %s with %d and %d bytes, and it is %s with %d and %d",
			want.describe(), want.RawKeyBytes, want.RawValueBytes, got.describe(), got.RawKeyBytes, got.RawValueBytes)
	}
	if err != nil {
		err = base.Corruption(base.TableName(want.Num), -1, "facts", err)
	}
	return err
}
