package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
)

// upkeep does what a program does beside reading and writing.
func (r *role) upkeep() {
	pace := between(r.r, 10*time.Millisecond, time.Second)
	var last shale.Metrics
	for i := 0; r.s.pause(time.Duration(r.r.Int64N(int64(2 * pace)))); i++ {
		err := r.s.call(r.name, func() error {
			switch n := r.r.IntN(23); {
			case n < 5:
				return r.s.db.Flush(r.s.ctx)
			case n < 9:
				return r.s.db.Compact(r.s.ctx, r.someRange())
			case n < 11:
				return r.checkpoint(fmt.Sprintf("copy-%d-%d-%d", r.s.Life, r.s.n, i))
			case n < 12:
				return r.s.db.Verify(r.s.ctx)
			case n < 14:
				return r.s.db.Sync()
			case n < 15:
				return r.readOnly()
			case n < 17:
				return r.checkTables()
			case n < 18:
				return r.rebuild()
			case n < 19:
				return r.export()
			}
			return r.checkMetrics(&last)
		})
		r.s.ops.Add(1)
		if err != nil && !errors.Is(err, context.Canceled) && !r.s.disk.excusesLate(err) {
			r.s.fail(fmt.Errorf("upkeep: %w", err))
		}
	}
}

// someRange chooses what to compact: sometimes all.
func (r *role) someRange() shale.Range {
	if r.r.IntN(4) == 0 {
		return shale.Range{}
	}
	sec := r.s.keys.sections[r.r.IntN(writers)]
	lo, hi := r.stretch(sec)
	return r.s.keys.rangeOf(sec.writer, lo, hi)
}

// checkpoint makes a checkpoint, checks it and removes it.
func (r *role) checkpoint(name string) error {
	dir := filepath.Join(r.s.Dir, name)
	err := r.checkOther(dir, false, func() error { return r.s.db.Checkpoint(dir) })
	if rerr := os.RemoveAll(dir); rerr != nil {
		r.s.fail(rerr)
	}
	r.s.copies.Add(1)
	return err
}

// readOnly opens the store a second time while it is written.
func (r *role) readOnly() error {
	return r.checkOther(r.s.store, true, func() error { return nil })
}

// checkOther has prepare make the store in dir, which is to show this one at
// some moment in between, opens it and checks that it does. One writer stands
// still meanwhile, so that there its answers must be the same in all.
func (r *role) checkOther(dir string, readOnly bool, prepare func() error) error {
	o := r.s.options(r.r, nil)
	o.ReadOnly, o.MustExist = readOnly, true
	still := r.s.keys.sections[r.r.IntN(writers)]
	still.mu.Lock()
	doubtful := r.s.keys.begun()
	doubtful[still.writer] = still.settled + 1
	before := r.s.keys.copyAll()
	err := prepare()
	var other *shale.DB
	if err == nil {
		other, err = shale.Open(dir, &o)
	}
	after := r.s.keys.copyAll()
	if readOnly {
		r.s.keys.doubt(&before, doubtful)
	}
	still.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s (read-only: %v): %w", filepath.Base(dir), readOnly, err)
	}
	err = func() error {
		for w, sec := range r.s.keys.sections {
			got, err := r.s.keys.collect(other, w, 0, sec.slots, r.r.IntN(2) == 0)
			if err != nil {
				return err
			}
			if err := sec.checkStamps(0, got, before[w], after[w]); err != nil {
				return err
			}
			if err := r.twinsIn(other, w); err != nil {
				return err
			}
			r.s.checks.Add(uint64(sec.slots))
		}
		return other.Verify(context.Background())
	}()
	if err := errors.Join(err, other.Close()); err != nil {
		return fmt.Errorf("%s (read-only: %v): %w", filepath.Base(dir), readOnly, err)
	}
	return nil
}

// rebuild rebuilds filters, if the options call for some.
func (r *role) rebuild() error {
	if r.s.opts.FilterBits < 0 {
		return nil
	}
	_, err := r.s.db.RebuildFilters(r.s.ctx)
	return err
}

// export asks a bundle of all filters for the slots of a writer that stands still
// meanwhile: it denies none that is there.
func (r *role) export() error {
	still := r.s.keys.sections[r.r.IntN(writers)]
	still.mu.Lock()
	var file bytes.Buffer
	_, err := r.s.db.ExportFilters(r.s.ctx, &file)
	stamps := still.copyStamps(0, still.slots)
	still.mu.Unlock()
	if err != nil {
		return err
	}
	b, err := bundle.Open(file.Bytes())
	if err != nil {
		return err
	}
	var key []byte
	for slot, s := range stamps {
		key = appendKey(key[:0], r.s.Seed, still.writer, slot)
		if s&busy == 0 && s.visible() != 0 && !b.MayContain(key) {
			return violationf("a bundle denies slot %d of writer %d, which is there: %v", slot, still.writer, s)
		}
	}
	r.s.checks.Add(uint64(len(stamps)))
	return b.Err()
}

// checkTables looks for tables that can't be.
func (r *role) checkTables() error {
	for _, t := range r.s.db.Tables() {
		if string(t.Smallest) > string(t.Largest) || t.Entries == 0 {
			return violationf("a table is listed as %+v", t)
		}
	}
	return nil
}

// checkMetrics looks for figures that can't be, alone or after the last ones.
func (r *role) checkMetrics(last *shale.Metrics) error {
	m := r.s.db.Metrics()
	d := m.Sub(*last)
	*last = m
	r.s.checks.Add(1)
	for name, n := range map[string]uint64{
		"Gets": d.Gets, "GetHits": d.GetHits, "FilterNegative": d.FilterNegative, "BlockReads": d.BlockReads,
		"CacheHits": d.CacheHits, "Writes": d.Writes, "WrittenBytes": d.WrittenBytes, "WALBytes": d.WALBytes,
		"WALSyncs": d.WALSyncs, "Flushes": d.Flushes, "Compactions": d.Compactions, "CompactBytes": d.CompactBytes,
	} {
		if int64(n) < 0 {
			return violationf("Metrics: %s went down by %d", name, -int64(n))
		}
	}
	switch {
	case m.GetHits+m.GetMisses != m.Gets:
		return violationf("Metrics: %d hits and %d misses of %d Gets", m.GetHits, m.GetMisses, m.Gets)
	case m.CorruptionsMet != 0:
		return violationf("Metrics: %d corruptions were met", m.CorruptionsMet)
	case m.UnusableFilters != 0 && !r.s.disk.hadStorm():
		return violationf("Metrics: %d filters can't be used", m.UnusableFilters)
	// The holder scans one of its own, two getters may be in GetMany, and one role scans.
	case m.OpenSnapshots+m.OpenIterators > maxHeld+4:
		return violationf("Metrics: %d snapshots and %d iterators are open", m.OpenSnapshots, m.OpenIterators)
	case m.MemtableMemory < 0 || m.CacheMemory < 0 || m.FilterMemory < 0 || m.IndexMemory < 0 || m.FalsePositiveMemory < 0:
		return violationf("Metrics: memory below nothing:\n%v", m)
	}
	for _, l := range m.Levels {
		if l.Runs > l.Tables || l.Level > 0 && l.Runs > 2 || l.Level == shale.NumLevels-1 && l.Runs > 1 || (l.Tables == 0) != (l.Bytes == 0) || l.Tombstones > l.Entries {
			return violationf("Metrics: level %+v", l)
		}
	}
	return nil
}
