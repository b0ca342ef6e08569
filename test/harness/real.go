package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
)

// realReader is a Reader of the store itself, or of a snapshot of it.
type realReader struct {
	shale.Reader
	of *Real
}

func (r realReader) Get(key []byte) ([]byte, error) {
	value, err := r.Reader.Get(key)
	return value, r.of.noteRead(err)
}

func (r realReader) AppendValue(dst, key []byte) ([]byte, error) {
	value, err := r.Reader.AppendValue(dst, key)
	return value, r.of.noteRead(err)
}

func (r realReader) ViewValue(key []byte, fn func(value []byte) error) error {
	return r.of.noteRead(r.Reader.ViewValue(key, fn))
}

func (r realReader) Has(key []byte) (bool, error) {
	has, err := r.Reader.Has(key)
	return has, r.of.noteRead(err)
}

func (r realReader) ExpiresAt(key []byte) (time.Time, error) {
	at, err := r.Reader.ExpiresAt(key)
	return at, r.of.noteRead(err)
}

func (r realReader) Scan(rng shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		for e, err := range r.Reader.Scan(rng) {
			if !yield(e, r.of.noteRead(err)) {
				return
			}
		}
	}
}

func (r realReader) Iterator(rng shale.Range) Iterator { return realIterator{r.NewIterator(rng), r.of} }

type realIterator struct {
	*shale.Iterator
	of *Real
}

func (it realIterator) Err() error   { return it.of.noteRead(it.Iterator.Err()) }
func (it realIterator) Close() error { return it.of.noteRead(it.Iterator.Close()) }

// Real is an open store as a Store. The first error is kept, so that whoever runs a step can judge
// what the step says in a word.
type Real struct {
	realReader
	DB   *shale.DB
	part Part
	// Open opens a store next to this one: a checkpoint or the same store read-only. Nil: no step asks for it.
	Open func(dir string, readOnly bool) (*shale.DB, error)
	// Copied, if it is set, is called with what a checkpoint holds before it is used.
	Copied func(dir string, has State)
	// Err is the first error of a call since it was last cleared. That a key is absent is none.
	Err error
	// Wrote is how many calls that write have succeeded before that.
	Wrote int
}

// NewReal returns db as a Store.
func NewReal(db *shale.DB) *Real { return newReal(db, Part{}) }

// newReal returns a part of db as a Store.
func newReal(db *shale.DB, p Part) *Real {
	r := &Real{DB: db, part: p}
	r.realReader = realReader{p.of(db), r}
	return r
}

// note keeps the error of a call that does not write.
func (r *Real) note(err error) error {
	if err != nil && r.Err == nil {
		r.Err = err
	}
	return err
}

// noteRead is note for a read.
func (r *Real) noteRead(err error) error {
	if errors.Is(err, shale.ErrNotFound) {
		return err
	}
	return r.note(err)
}

// wrote notes how a call ended that writes.
func (r *Real) wrote(err error) error {
	if err == nil && r.Err == nil {
		r.Wrote++
	}
	return r.note(err)
}

func (r *Real) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	var own error // that fn has returned
	err := r.part.getMany(r.DB, keys, func(i int, value []byte, found bool) error {
		own = fn(i, value, found)
		return own
	})
	if own != nil && errors.Is(err, own) {
		return err
	}
	return r.note(err)
}

func (r *Real) Explain(key []byte) (found bool, value []byte, err error) {
	x, err := r.DB.Inspect().Explain(r.part.key(key))
	return x.Found, x.Value, r.note(err)
}

func (r *Real) MayContain(key []byte) bool { return r.DB.MayContain(r.part.key(key)) }

func (r *Real) MayContainMany(keys [][]byte, out []bool) { r.DB.MayContainMany(r.part.keys(keys), out) }

func (r *Real) Denied(keys [][]byte) (denied [][]byte, err error) {
	var file bytes.Buffer
	if _, err := r.DB.Inspect().ExportFilters(context.Background(), &file); err != nil {
		return nil, r.note(err)
	}
	b, err := bundle.Open(file.Bytes())
	if err != nil {
		return nil, r.note(err)
	}
	for _, key := range keys {
		if !b.MayContain(r.part.key(key)) {
			denied = append(denied, key)
		}
	}
	return denied, r.note(b.Err())
}

func (r *Real) Snapshot() (Snapshot, error) {
	s, err := r.DB.Snapshot()
	if err != nil {
		return nil, r.note(err)
	}
	return realSnapshot{realReader{r.part.of(s), r}, s}, nil
}

type realSnapshot struct {
	realReader
	s *shale.Snapshot
}

func (s realSnapshot) Close() error { return s.s.Close() }

func (r *Real) Put(key, value []byte) error { return r.wrote(r.part.writer(r.DB).Put(key, value)) }
func (r *Real) Delete(key []byte) error     { return r.wrote(r.part.writer(r.DB).Delete(key)) }
func (r *Real) PutTTL(key, value []byte, ttl time.Duration) error {
	return r.wrote(r.part.writer(r.DB).PutTTL(key, value, ttl))
}

func (r *Real) DeleteRange(lower, upper []byte) error {
	return r.wrote(r.part.writer(r.DB).DeleteRange(lower, upper))
}

func (r *Real) PutIfAbsent(key, value []byte) (bool, error) {
	inserted, err := r.part.putIfAbsent(r.DB, key, value)
	if !inserted && err == nil {
		return false, nil
	}
	return inserted, r.wrote(err)
}

func (r *Real) PutIfAbsentTTL(key, value []byte, ttl time.Duration) (bool, error) {
	inserted, err := r.part.putIfAbsentTTL(r.DB, key, value, ttl)
	if !inserted && err == nil {
		return false, nil
	}
	return inserted, r.wrote(err)
}

func (r *Real) Write(w Write) error {
	return r.wrote(r.DB.Write(context.Background(), w.batch(r.part)))
}

func (r *Real) Update(w Write, before, after func(r Reader)) error {
	return r.wrote(r.DB.Update(context.Background(), func(tx *shale.Txn) error {
		before(realReader{r.part.of(tx), r})
		if err := w.to(r.part.writer(tx)); err != nil {
			return err
		}
		if w.Own {
			tx.SetDurability(w.Durability)
		}
		after(realReader{r.part.of(tx), r})
		return nil
	}))
}

func (r *Real) Cancelled(w Write) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return r.DB.Write(ctx, w.batch(r.part))
}

func (r *Real) Ingest(puts []Entry) error {
	return r.wrote(r.DB.Ingest(context.Background(), func(yield func(key, value []byte) bool) {
		for _, e := range puts {
			if !yield(r.part.key([]byte(e.Key)), []byte(e.Value)) {
				return
			}
		}
	}))
}

func (r *Real) Sync() error  { return r.note(r.DB.Sync()) }
func (r *Real) Flush() error { return r.note(r.DB.Flush(context.Background())) }
func (r *Real) Compact(rng shale.Range) error {
	return r.note(r.DB.Compact(context.Background(), r.part.bounds(rng)))
}
func (r *Real) HoldLogs(last int) {
	from := uint64(0)
	if log := int64(shale.ShippingOf(r.DB).Position().Log); last > 0 {
		from = uint64(max(1, log-int64(last)+1))
	}
	shale.ShippingOf(r.DB).HoldLogs(from)
}
func (r *Real) Verify() error { return r.note(r.DB.Verify(context.Background())) }

// Tables lists the tables, and compares them with the metrics. Those of a run follow each other in key
// order and overlap nowhere; runs are numbered from 0 in each level, and levels ascend.
func (r *Real) Tables() error {
	tables := r.DB.Inspect().Tables()
	if err := inOrder(tables); err != nil {
		return r.note(err)
	}
	// Compactions change the tables, and filters come and go, while the metrics are taken: only what is
	// wrong again and again, in tables that stay the same, is wrong.
	wrong := 0
	for range 200 {
		m, now := r.DB.Metrics(), r.DB.Inspect().Tables()
		err := fit(m, now)
		if err == nil {
			return nil
		}
		if slices.EqualFunc(tables, now, sameTable) {
			if wrong++; wrong == 5 {
				return r.note(fmt.Errorf("metrics: %w", err))
			}
		}
		tables = now
		time.Sleep(time.Millisecond)
	}
	return nil
}

func sameTable(a, b shale.TableInfo) bool {
	return a.Number == b.Number && a.Level == b.Level && a.Run == b.Run && a.FilterBytes == b.FilterBytes
}

// fit reports how metrics differ from what the tables say, as far as they do.
func fit(m shale.Metrics, tables []shale.TableInfo) error {
	const little = 1e-6
	var sums [shale.NumLevels]shale.LevelMetrics
	var low, high [shale.NumLevels]float64 // between these is the sum of the runs' false positives
	all := int64(0)
	for i := 0; i < len(tables); {
		first := tables[i]
		l := &sums[first.Level]
		best, worst := 1.0, 0.0
		for ; i < len(tables) && tables[i].Level == first.Level && tables[i].Run == first.Run; i++ {
			t := tables[i]
			l.Tables++
			l.Bytes, l.Entries, l.Tombstones, l.FilterBytes = l.Bytes+t.Size, l.Entries+t.Entries, l.Tombstones+t.Tombstones, l.FilterBytes+t.FilterBytes
			l.Expiring += t.Expiring
			best, worst, all = min(best, t.PredictedFPR), max(worst, t.PredictedFPR), all+t.Size
		}
		l.Runs++
		low[first.Level], high[first.Level] = low[first.Level]+best, high[first.Level]+worst
	}
	filters := int64(0)
	for i, got := range m.Levels {
		want := sums[i]
		filters += want.FilterBytes
		switch {
		case got.Runs != want.Runs || got.Tables != want.Tables || got.Bytes != want.Bytes || got.Entries != want.Entries ||
			got.Tombstones != want.Tombstones || got.Expiring != want.Expiring || got.FilterBytes != want.FilterBytes:
			return fmt.Errorf("level %d is %+v, its tables have %+v", i, got, want)
		case got.PredictedFPR < low[i]-little || got.PredictedFPR > high[i]+little:
			return fmt.Errorf("level %d lets pass %v, its tables between %v and %v", i, got.PredictedFPR, low[i], high[i])
		case !(got.KeyShare >= 0 && got.KeyShare <= 1+little):
			return fmt.Errorf("level %d has a share of %v of the keys", i, got.KeyShare)
		}
	}
	if m.FilterMemory != filters || m.LiveBytes < 0 || m.LiveBytes > all+int64(m.Levels[0].Runs) || m.IndexMemory < 0 || m.IndexOnDisk < 0 || m.CompactionDebt < 0 {
		return fmt.Errorf("%+v, with %d bytes of tables and %d of filters", m, all, filters)
	}
	return nil
}

func inOrder(tables []shale.TableInfo) error {
	var last *shale.TableInfo
	for _, t := range tables {
		sameLevel := last != nil && t.Level == last.Level
		switch {
		case bytes.Compare(t.Smallest, t.Largest) > 0 || t.Entries == 0:
			return fmt.Errorf("table %d has %d entries, from %q to %q", t.Number, t.Entries, t.Smallest, t.Largest)
		case last != nil && t.Level < last.Level, !sameLevel && t.Run != 0, sameLevel && t.Run != last.Run && t.Run != last.Run+1:
			return fmt.Errorf("table %d, of level %d and run %d, follows one of %d and %d", t.Number, t.Level, t.Run, last.Level, last.Run)
		case sameLevel && t.Run == last.Run && bytes.Compare(last.Largest, t.Smallest) >= 0:
			return fmt.Errorf("table %d begins at %q; the one before it ends at %q", t.Number, t.Smallest, last.Largest)
		}
		last = &t
	}
	return nil
}

func (r *Real) Checkpoint(dir string) error { return r.note(r.DB.Checkpoint(dir)) }

func (r *Real) UseCopy(dir string, use func(copy Store)) error {
	db, err := r.Open(dir, false)
	if err != nil {
		return r.note(err)
	}
	c := newReal(db, r.part)
	if r.Copied != nil {
		has, err := r.part.read(db)
		if err != nil {
			return r.note(errors.Join(err, db.Close()))
		}
		r.Copied(dir, has)
	}
	use(c)
	return r.note(errors.Join(c.Err, db.Close()))
}

// Dir is the directory of the stores that programs run on.
const Dir = "db"

func (r *Real) ReadOnly(use func(Reader)) error {
	db, err := r.Open(Dir, true)
	if err != nil {
		return r.note(err)
	}
	use(realReader{r.part.of(db), r})
	if err := db.Put(nil, nil); !errors.Is(err, shale.ErrReadOnly) {
		err = fmt.Errorf("Put to a read-only store: %w, want ErrReadOnly", err)
		return r.note(errors.Join(err, db.Close()))
	}
	return r.note(db.Close())
}

// RebuildFilters rebuilds the filters. A store that wants none refuses, which is the right answer then.
func (r *Real) RebuildFilters() error {
	_, err := r.DB.Inspect().RebuildFilters(context.Background())
	if none := optionsOf(r.DB).FilterBits < 0; none && err != nil {
		return nil
	} else if none {
		err = fmt.Errorf("done, with FilterBits below 0")
	}
	return r.note(err)
}
