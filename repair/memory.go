package repair

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/wal"
)

// load reads the commits of the given stretches again, and returns their entries, sorted:
// those that no ingestion can have overtaken, and the others. They are all in memory, as those
// of the live logs are while a store is open. newest has the range deletes too, but not over keys
// that an ingestion has set later: what was ingested may have got number 0. The tables have them there.
func (l *logs) load(from []item) (newest, overtaken *entries, err error) {
	e := new(entries)
	for _, f := range l.files {
		var wanted []*stretch
		for _, it := range from {
			if it.log == f {
				wanted = append(wanted, it.stretch)
			}
		}
		if wanted == nil {
			continue
		}
		o := wal.ReadOptions{Known: f.known, Salvage: true}
		_, err := wal.Read(l.s.fs, l.s.dir, f.num, l.s.storeID, o, func(payload []byte) error {
			if err := base.ContextError(l.s.ctx); err != nil {
				return err
			}
			return e.add(payload, wanted)
		})
		if err == nil {
			err = l.same(f, wanted, e)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("repair: %w", err)
		}
	}
	slices.SortFunc(e.list, func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) })
	newest, overtaken = &entries{spans: e.spans}, new(entries)
	for _, m := range l.marks {
		newest.spans = newest.spans.Without(m.least, append(bytes.Clone(m.greatest), 0), m.seq)
	}
	for _, kv := range e.list {
		to := newest
		if l.overtaken(kv.InternalKey) {
			to = overtaken
		}
		to.list = append(to.list, kv)
	}
	return newest, overtaken, nil
}

// same returns an error unless the stretches of f have as many changes as when they were
// judged. A device may fail between the two reads.
func (l *logs) same(f *logFile, wanted []*stretch, e *entries) error {
	want := uint64(0)
	for _, s := range wanted {
		want += s.entries
	}
	got := e.changes - e.before
	if e.before = e.changes; got == want {
		return nil
	}
	err := fmt.Errorf("read %s again: %d changes, there were %d", base.LogName(f.num), got, want)
	if u, unread := l.s.fs.unreadIn(base.LogName(f.num)); unread {
		err = fmt.Errorf("%w: %w", err, u.err)
	}
	return err
}

// entries are the entries of logs. It is a base.Iterator that only goes forward.
type entries struct {
	list    []base.KV
	spans   *spans.Set // range deletes, which the iterator does not apply
	changes uint64     // number of entries and range deletes that were loaded
	before  uint64     // number of those of the logs that were loaded before
	next    int        // index of the entry that Next returns
	at      base.KV    // the current entry; merge.origins finds this iterator by its address
	err     error
}

// add adds the changes of a commit, if it is in one of the stretches.
func (e *entries) add(payload []byte, wanted []*stretch) error {
	first, _, err := shale.DecodeBatch(payload)
	if err != nil {
		return nil // logs.record has made it a gap
	}
	seq := base.Seq(first)
	if !slices.ContainsFunc(wanted, func(s *stretch) bool { return s.first <= seq && seq <= s.last }) {
		return nil
	}
	// payload is only lent, and the entries keep its keys and values.
	_, b, err := shale.DecodeBatch(bytes.Clone(payload))
	if err != nil {
		return err
	}
	for op := range b.Ops() {
		kind, value := base.Kind(op.Kind), op.Value
		if !op.ExpiresAt.IsZero() {
			kind, value = base.KindExpiring, base.AppendExpiring(nil, op.ExpiresAt.UnixMilli(), value)
		}
		if op.Kind == shale.OpDeleteRange {
			e.spans = e.spans.With(op.Key, op.Value, seq)
		} else {
			e.list = append(e.list, base.KV{InternalKey: base.NewKey(op.Key, seq, kind), Value: value})
		}
		e.changes++
		seq++
	}
	return nil
}

// First implements base.Iterator.
func (e *entries) First() *base.KV {
	e.next = 0
	return e.Next()
}

// Next implements base.Iterator.
func (e *entries) Next() *base.KV {
	if e.next == len(e.list) || e.err != nil {
		return nil
	}
	e.at = e.list[e.next]
	e.next++
	return &e.at
}

// Err implements base.Iterator.
func (e *entries) Err() error { return e.err }

// Close implements base.Iterator.
func (e *entries) Close() error {
	e.list, e.next = nil, 0
	return nil
}

// cannot sets the error for a call that entries does not support.
func (e *entries) cannot() *base.KV {
	e.err = errForward
	return nil
}

// Last, Prev, SeekGE and SeekLT are needed for base.Iterator. They fail.
func (e *entries) Last() *base.KV                   { return e.cannot() }
func (e *entries) Prev() *base.KV                   { return e.cannot() }
func (e *entries) SeekGE([]byte, base.Seq) *base.KV { return e.cannot() }
func (e *entries) SeekLT([]byte) *base.KV           { return e.cannot() }
