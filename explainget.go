package shale

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// Explain performs a Get and tells how it went: each memtable, run and table
// that it looked at or passed over, what was said there, which blocks were
// read, and how long it took. It does what Get does, in the same order, and
// its answer is Get's. Of Metrics it moves the counts of blocks and of the cache
// only.
func (db *DB) Explain(key []byte) (Explanation, error) {
	for {
		v := db.view.Load()
		if v == nil {
			return Explanation{}, ErrClosed
		}
		x := explainer{db: db, seq: db.commits.Visible()}
		x.Key = cloneNonNil(key)
		err := x.explain(v)
		if errors.Is(err, filecache.ErrGone) {
			continue
		}
		if err != nil {
			return x.Explanation, db.readError(key, err)
		}
		m := Metrics{Levels: make([]LevelMetrics, NumLevels)}
		db.counters.addTo(&m)
		x.MeasuredFPR = ratio(m.FilterFalsePositive, m.GetMisses)
		return x.Explanation, nil
	}
}

// An explainer is one traced Get.
type explainer struct {
	Explanation
	db       *DB
	seq      base.Seq
	answered bool
}

func (x *explainer) explain(v *view) error {
	begin := time.Now()
	defer func() { x.Duration = time.Since(begin) }()
	l := x.db.newLookup(x.Key)
	if err := x.memtable("memtable", v.mem, l.hash); err != nil {
		return err
	}
	for _, imm := range v.imms {
		if err := x.memtable("immutable memtable", imm.mem, l.hash); err != nil {
			return err
		}
	}
	for _, r := range v.Runs {
		if err := x.run(r, &l); err != nil {
			return err
		}
	}
	return nil
}

// step times one place and adds it to the explanation.
func (x *explainer) step(s ExplainStep, look func(*ExplainStep) error) error {
	if x.answered {
		s.Verdict = Skipped
		x.Steps = append(x.Steps, s)
		return nil
	}
	begin := time.Now()
	err := look(&s)
	s.Duration = time.Since(begin)
	x.Steps = append(x.Steps, s)
	return err
}

// answer records that a version of the key was met.
func (x *explainer) answer(s *ExplainStep, kind base.Kind, value []byte) {
	x.answered = true
	s.Verdict = Tombstone
	if kind == base.KindPut {
		s.Verdict = Found
		x.Found, x.Value = true, cloneNonNil(value)
	}
}

func (x *explainer) memtable(place string, m *memtable.Memtable, hash uint64) error {
	return x.step(ExplainStep{Place: place, Level: -1}, func(s *ExplainStep) error {
		s.Verdict = FilterNegative
		if !m.MayContainHash(hash) {
			return nil
		}
		if !m.Pin() {
			return filecache.ErrGone
		}
		defer m.Unpin()
		s.Verdict = FalsePositive
		if value, kind, found, _ := m.Get(x.Key, x.seq); found {
			x.answer(s, kind, value)
		}
		return nil
	})
}

func (x *explainer) run(r *tree.Run, l *lookup) error {
	s := ExplainStep{Place: fmt.Sprintf("L%d", r.Level), Level: r.Level, Run: r.Nth}
	return x.step(s, func(s *ExplainStep) error {
		t := r.Find(x.Key)
		if t == nil {
			s.Verdict = OutOfRange
			return nil
		}
		s.Table = uint64(t.Meta.Num)
		x.ExpectedFalsePositives += t.PredictedFPR()
		f := t.Filter()
		s.asked = f != nil
		switch {
		case f != nil && !f.MayContain(l.hashFor(f)):
			s.Verdict = FilterNegative
			return nil
		case f != nil && x.db.falsePositives.Has(s.Table, x.Key, l.hash):
			s.Verdict = Remembered
			return nil
		}
		return x.read(t, l.tagHash(), s, f != nil)
	})
}

// read looks into the table's blocks.
func (x *explainer) read(t *tree.Table, tagHash uint64, s *ExplainStep, hadFilter bool) error {
	var value sstable.Value
	var trace sstable.Trace
	found, err := t.Reader.Get(x.Key, tagHash, x.seq, &value, &trace)
	for _, r := range trace.Reads {
		s.Blocks = append(s.Blocks, BlockRead{Kind: r.Kind.String(), Offset: r.Offset, Bytes: r.Bytes, Cached: r.Cached})
	}
	if err != nil {
		return err
	}
	defer value.Release()
	switch {
	case found:
		x.answer(s, value.Trailer.Kind(), value.Bytes)
	case hadFilter:
		s.Verdict = FalsePositive
	default:
		s.Verdict = NoFilter
	}
	return nil
}
