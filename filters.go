package shale

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
)

// This file connects the store with the packages that decide about filters.

// Package filterplan decides about filters, and residency.Filters which of them are in
// memory. This file has what connects them with the store: the options as a policy, the
// hash function, reports of filters that are broken or bad, and the prefixProbe, by which
// iterators ask filters for a prefix.

// filterPolicy returns what the options say about filters, for package filterplan.
// Requires: chooseHasher was called.
func (db *DB) filterPolicy() filterplan.Policy {
	p := filterplan.Policy{
		AverageBits:   db.opts.FilterBits,
		Memory:        db.opts.FilterMemory,
		LastLevelFuse: db.opts.Tuning.LastLevelFilter == FuseFilter,
		Hasher:        db.hasher,
		PrefixRule:    db.opts.Tuning.FilterPrefix.rule,
	}
	if db.opts.Shipping.FiltersInFiles {
		p.Memory = 0
	}
	return p
}

// filterBudget returns how many bytes the filters in memory may take, of a store with this number of keys.
func (db *DB) filterBudget(keys uint64) int64 {
	p := db.filterPolicy()
	p.Memory = db.opts.FilterMemory
	return p.Budget(keys)
}

// chooseHasher sets the hash function of memtables and of filters to be written. The filters of
// tables may already have a secret of SipHash, which is taken over: then a lookup hashes its key
// only once. Open calls it, before there is a memtable.
func (db *DB) chooseHasher(tables iter.Seq[*tree.Table]) (err error) {
	secret := db.opts.testing.seed
	if secret == 0 {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		secret = binary.LittleEndian.Uint64(random[:])
	}
	if db.hasher, err = filterplan.ChooseHasher(db.opts.Tuning.FilterHash.id(), secret, db.hashersInUse(tables)); err != nil {
		return fmt.Errorf("shale: option Tuning.FilterHash: %w", err)
	}
	return nil
}

// hasherLooks is how many filters hashersInUse reads from their files.
const hasherLooks = 4

// hashersInUse returns the hash functions of the filters in memory. If SipHash is wanted and none there has
// its secret, it looks for one in a few of the filters that are not in memory: if each opening had a secret of
// its own, a lookup would hash its key once for each secret, and RebuildFilters would build every filter again.
func (db *DB) hashersInUse(tables iter.Seq[*tree.Table]) (all []bloom.Hasher) {
	secret := false
	for t := range tables {
		if f := t.Filter(); f != nil {
			all = append(all, f.Hasher())
			secret = secret || f.Hasher().ID() == bloom.HashSipHash
		}
	}
	if secret || db.opts.Tuning.FilterHash != SipHash || db.opts.FilterBits < 0 {
		return all
	}
	left := hasherLooks
	for t := range tables {
		if left--; left < 0 {
			break
		}
		t.NeededFilter() // so that it need not be read again
		l, err := t.Reader.StoredFilter()
		var damage *CorruptionError
		if err != nil && !errors.As(err, &damage) { // whoever needs the filter reports damage
			db.backgroundError("read filter", err)
		}
		if f := l.Filter(); f != nil && f.Hasher().ID() == bloom.HashSipHash {
			return append(all, f.Hasher())
		}
	}
	return all
}

// loading says how the tables of state are opened. moving is that of tree.Loading.
func (db *DB) loading(state *manifest.State, moving bool) tree.Loading {
	return tree.Loading{
		NextFileNum: state.NextFileNum,
		SessionOf:   state.SessionOf,
		Filters:     db.filtersFit(state.Version),
		Moving:      moving,
		Elsewhere:   state.Elsewhere,
		IndexMemory: db.opts.Tuning.IndexMemory,
	}
}

// filtersFit reports whether the filters of all tables are within the limit of their
// memory. If not, residency.Filters.Adjust reads as many as fit.
func (db *DB) filtersFit(v *manifest.Version) bool {
	limit, sum := db.opts.FilterMemory, int64(0)
	if limit <= 0 {
		return true
	}
	for m := range v.Tables() {
		bytes, _ := m.Filter()
		sum += bytes
	}
	return sum <= limit
}

// readFilters has the filters and indexes read that Open has left. complete is that of tree.Load: if there are
// none, what is in memory has to fit all the same.
func (db *DB) readFilters(complete bool) {
	if !complete || db.filters.Adjust(db.mems.View().Version) {
		db.filters.LoadLater()
	}
}

// reportFilter reports the filters of t that could not be used when t was opened, unless
// the options call for none.
func (db *DB) reportFilter(t *tree.Table) {
	for _, err := range []error{t.Reader.SidecarErr(), t.Reader.FilterErr()} {
		if err != nil && db.opts.FilterBits >= 0 {
			db.filterUnusable(t, err)
		}
	}
}

// filterUnusable counts a filter that can't be used, and reports it by EventFilterUnusable.
// Lookups in t read a block each, unless t has another filter.
func (db *DB) filterUnusable(t *tree.Table, err error) {
	db.counters.unusableFilters.Add(1)
	db.events.emit(Event{Kind: EventFilterUnusable, Tables: []uint64{uint64(t.Meta.Num)}, Err: err})
}

// judgeFilter reports, once for each filter of a table, that it lets pass more absent keys
// than it should: because of a bad hash function for these keys, of keys that somebody made
// to be false positives, or of a mistake in the filter. n is the number of its false
// positives so far. Lookups call it after each false positive, so it must cost nearly
// nothing: JudgedAt is false for most n.
func (db *DB) judgeFilter(t *tree.Table, n uint64) {
	if !filterplan.JudgedAt(n) {
		return
	}
	asked, p := n+t.Negatives.Load(), t.PredictedFPR()
	// Several lookups may come here at once. The first reports.
	if !filterplan.IsWorse(n, asked, p) || !t.Worse.CompareAndSwap(false, true) {
		return
	}
	db.counters.worseFilters.Add(1)
	db.events.emit(Event{
		Kind: EventFilterWorse, Tables: []uint64{uint64(t.Meta.Num)},
		Reason: fmt.Sprintf("%s false positives measured, %s predicted, asked %d times",
			base.FormatPercent(ratio(n, asked)), base.FormatPercent(p), asked),
	})
}
