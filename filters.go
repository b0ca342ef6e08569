package shale

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
)

// filterPolicy returns what the options say about filters.
func (db *DB) filterPolicy() filterplan.Policy {
	return filterplan.Policy{
		AverageBits:   db.opts.FilterBits,
		Memory:        db.opts.FilterMemory,
		LastLevelFuse: db.opts.LastLevelFilter == FuseFilter,
		Hasher:        db.hasher,
		PrefixRule:    db.opts.FilterPrefix.rule,
	}
}

// chooseHasher sets the hash function of the store, given the tables that it has.
func (db *DB) chooseHasher(v *tree.Version) (err error) {
	secret := db.opts.testing.seed
	if secret == 0 {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		secret = binary.LittleEndian.Uint64(random[:])
	}
	var existing []bloom.Hasher
	for t := range v.Tables() {
		if f := t.Filter(); f != nil {
			existing = append(existing, f.Hasher())
		}
	}
	if db.hasher, err = filterplan.ChooseHasher(db.opts.FilterHash.id(), secret, existing); err != nil {
		return fmt.Errorf("shale: option FilterHash: %w", err)
	}
	return nil
}

// reportFilter tells of filters of t that Open could not use.
func (db *DB) reportFilter(t *tree.Table) {
	for _, err := range []error{t.Reader.SidecarErr(), t.Reader.FilterErr()} {
		if err != nil && db.opts.FilterBits >= 0 {
			db.filterUnusable(t, err)
		}
	}
}

// filterUnusable tells of a filter that can't be used.
func (db *DB) filterUnusable(t *tree.Table, err error) {
	db.counters.unusableFilters.Add(1)
	db.events.emit(Event{Kind: EventFilterUnusable, Tables: []uint64{uint64(t.Meta.Num)}, Err: err})
}

// judgeFilter reports, once for each table, that its filter lets pass more absent keys
// than it should: because of a bad hash function for these keys, of keys that somebody
// made to be false positives, or of a mistake in the filter. n is the number of its
// false positives so far.
func (db *DB) judgeFilter(t *tree.Table, n uint64) {
	if !filterplan.JudgedAt(n) {
		return
	}
	asked, p := n+t.Negatives.Load(), t.PredictedFPR()
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

// A prefixProbe asks the filters of tables for the prefix that all keys of a
// range have in common.
type prefixProbe struct {
	rng       Range
	negatives uint64

	// The last question, which the next table mostly shares.
	rule   base.PrefixRule
	hasher bloom.Hasher
	prefix []byte
	hash   uint64
	inside bool // the range lies inside prefix, by rule
}

// keep returns the tables that may hold keys of the range: tables itself, or
// *kept, which it overwrites.
func (p *prefixProbe) keep(tables []*tree.Table, kept *[]*tree.Table) []*tree.Table {
	for i, t := range tables {
		if !p.denied(t) {
			continue
		}
		*kept = append((*kept)[:0], tables[:i]...)
		for _, t := range tables[i+1:] {
			if !p.denied(t) {
				*kept = append(*kept, t)
			}
		}
		p.negatives += uint64(len(tables) - len(*kept))
		return *kept
	}
	return tables
}

// denied tells whether t's filter says that no key of the range is in t.
func (p *prefixProbe) denied(t *tree.Table) bool {
	f, rule := t.Reader.PrefixFilter()
	if rule == (base.PrefixRule{}) || f == nil {
		return false
	}
	if rule != p.rule {
		p.rule = rule
		p.prefix, p.inside = rule.OfRange(p.rng.Lower, p.rng.Upper)
		p.ask(f)
	} else if f.Hasher() != p.hasher {
		p.ask(f)
	}
	return p.inside && !f.MayContain(p.hash)
}

// ask hashes the prefix for f.
func (p *prefixProbe) ask(f *bloom.Static) {
	p.hasher = f.Hasher()
	if p.inside {
		p.hash = base.PrefixHash(p.hasher.Hash(p.prefix))
	}
}
