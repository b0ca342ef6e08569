package shale

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
)

// This file has how a scan of a prefix asks the filters of tables.

// A prefixProbe asks the filters of tables for the prefix that all keys of a range have in
// common. An iterator makes one when it is opened, and leaves out the tables whose filter
// denies the prefix. One goroutine uses it.
type prefixProbe struct {
	rng       Range
	any       bool   // by one of the rules in use, the range lies inside a prefix
	negatives uint64 // tables that were left out, for the metrics

	// The last question. Most tables ask the same one: rule and hasher tell whether the
	// next does.
	rule   base.PrefixRule
	hasher bloom.Hasher
	prefix []byte
	hash   uint64
	inside bool // the range lies inside prefix, by rule
}

// newPrefixProbe returns a probe for rng. rules are the rules that filters in memory have for
// prefixes. They may change at any time. If a rule is missing, the probe may leave out fewer
// tables than it could. If there is one too many, it looks at tables in vain.
func newPrefixProbe(rng Range, rules []base.PrefixRule) prefixProbe {
	p := prefixProbe{rng: rng}
	for _, rule := range rules {
		if _, inside := rule.OfRange(rng.Lower, rng.Upper); inside {
			p.any = true
		}
	}
	return p
}

// keep returns the tables that may hold keys of the range. If that is all of them, it
// returns tables itself, which is the run's and must not be changed. Else it returns *kept,
// which it overwrites.
//
// If no rule in use fits the range, it looks at no table. Otherwise tables are only those of
// one prefix, however many the store has.
func (p *prefixProbe) keep(tables []*tree.Table, kept *[]*tree.Table) []*tree.Table {
	if !p.any {
		return tables
	}
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

// denied reports whether t's filter says that no key of the range is in t. A table without
// a filter, or whose filter knows no prefixes, denies nothing.
func (p *prefixProbe) denied(t *tree.Table) bool {
	// Filter and rule are loaded together. The filter would deny the prefixes of another
	// rule, because it was never told of them.
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
	return p.inside && !f.MayContainHash(p.hash)
}

// ask hashes the prefix with the hash function of f. The hash serves all filters that have
// the same one.
func (p *prefixProbe) ask(f *bloom.Static) {
	p.hasher = f.Hasher()
	if p.inside {
		p.hash = base.PrefixHash(p.hasher.Hash(p.prefix))
	}
}
