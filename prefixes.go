package shale

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
)

// A PrefixRule says what the prefix of a key is. The zero rule: keys have none.
// Tables remember by which rule they were written, so the rule may differ from
// one Open to the next.
type PrefixRule struct{ rule base.PrefixRule }

// FixedPrefix is the rule of the first n bytes. A shorter key has no prefix.
func FixedPrefix(n int) PrefixRule {
	if n <= 0 {
		n = -1 // not a rule: Open refuses it
	}
	return PrefixRule{base.PrefixRule{Length: n}}
}

// DelimitedPrefix is the rule of what comes before the nth occurrence of a
// delimiter, and the delimiter: with ':' and 1, "user:" of "user:42". A key
// with fewer of them has no prefix. n is 1 to 255.
func DelimitedPrefix(delimiter byte, n int) PrefixRule {
	if n <= 0 {
		n = -1
	}
	return PrefixRule{base.PrefixRule{Count: n, Delimiter: delimiter}}
}

// String returns the rule as a program would write it.
func (r PrefixRule) String() string {
	switch b := r.rule; {
	case b.Count != 0:
		return fmt.Sprintf("DelimitedPrefix(%q, %d)", b.Delimiter, b.Count)
	case b.Length != 0:
		return fmt.Sprintf("FixedPrefix(%d)", b.Length)
	}
	return "none"
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
