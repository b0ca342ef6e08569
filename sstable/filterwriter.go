package sstable

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
)

// A hashCollector keeps the hashes of a table's user keys until the filter
// can be sized by their real number, and a sum of them, taken when they came
// in: if memory changes under the builder, the sum shows it.
type hashCollector struct {
	wanted bool // there is to be a filter
	list   hashList
	sum    uint64

	hasher   bloom.Hasher
	rule     base.PrefixRule
	walk     prefixWalk
	prefixes uint64 // by rule, of the keys so far
}

// newHashCollector returns one that ends with release.
func newHashCollector(h bloom.Hasher, rule base.PrefixRule) hashCollector {
	return hashCollector{wanted: true, hasher: h, rule: rule}
}

// addKey adds what the filter is to know of a key that is not the last one's. own
// is bloom.Hash(key).
func (c *hashCollector) addKey(key []byte, own uint64) {
	if !c.wanted {
		return
	}
	c.add(hashWith(c.hasher, key, own))
	if c.rule == (base.PrefixRule{}) {
		return
	}
	if p, isNew := c.walk.next(c.rule, key); isNew {
		c.add(base.PrefixHash(c.hasher.Hash(p)))
		c.prefixes++
	}
}

func (c *hashCollector) add(h uint64) {
	c.list.add(h)
	c.sum += mixHash(h)
}

// A prefixWalk finds the distinct prefixes of keys in ascending order. Keys
// of one prefix lie side by side, so it compares with the last prefix alone:
// never with a key, which may consist of the same bytes.
type prefixWalk struct {
	last  []byte
	begun bool
}

// next returns the prefix of key if no key before had it.
func (w *prefixWalk) next(rule base.PrefixRule, key []byte) (prefix []byte, isNew bool) {
	p, ok := rule.Of(key)
	if !ok || w.begun && bytes.Equal(p, w.last) {
		return nil, false
	}
	w.last, w.begun = append(w.last[:0], p...), true
	return p, true
}

// mixHash makes the sum depend on every bit in more than one place.
func mixHash(h uint64) uint64 { return (h ^ h>>29) * 0x9fb21c651e98df25 }

func (c *hashCollector) release() {
	c.list.free()
	*c = hashCollector{}
}

var errHashSum = errors.New("sstable: build filter: hashes changed in memory")

// filterAlign is what the file offset of a filter block is a multiple of, so
// that its lines are cache lines when the file is mapped. Part of the file
// format.
const filterAlign = 64

// writeFilter builds the filter, checks it and writes it. A zero handle: none.
func (w *Writer) writeFilter() (handle, error) {
	if len(w.hashes.list.all) == 0 {
		return handle{}, nil
	}
	w.props.FilterBits, w.props.prefixRule, w.props.prefixes = w.opts.FilterBits, w.opts.PrefixRule, w.hashes.prefixes
	filter, err := buildFilter(w.hashes.list.all, w.hashes.sum, bloom.StaticOptions{
		Kind: w.opts.FilterKind, BitsPerKey: w.opts.FilterBits, Hasher: w.opts.Hasher,
	})
	if err != nil {
		return handle{}, err
	}
	for w.offset%filterAlign != 0 {
		w.buf = append(w.buf, 0)
		w.offset++
	}
	return w.writeBlock(BlockFilter, filter, false)
}

// buildFilter returns the filter of the hashes. Every one of them has been
// asked of the finished filter, and they are the ones that were collected:
// a filter never says no to a key of its table.
func buildFilter(hashes []uint64, sum uint64, o bloom.StaticOptions) ([]byte, error) {
	o.Kind, _ = filterplan.ChooseKind(len(hashes), o)
	b, err := bloom.AppendStatic(nil, hashes, o)
	if err != nil && o.Kind != bloom.KindBlocked { // by chance, and rarely
		o.Kind = bloom.KindBlocked
		b, err = bloom.AppendStatic(nil, hashes, o)
	}
	if err != nil {
		return nil, fmt.Errorf("sstable: build filter: %w", err)
	}
	filter, err := bloom.OpenStatic(b)
	if err != nil {
		return nil, fmt.Errorf("sstable: build filter: %w", err)
	}
	for _, h := range hashes {
		if !filter.MayContain(h) {
			return nil, errors.New("sstable: build filter: a key is missing in the result")
		}
		sum -= mixHash(h)
	}
	if sum != 0 {
		return nil, errHashSum
	}
	return b, nil
}

// hashWith returns key's hash by h. own is bloom.Hash(key), which data blocks
// need in any case.
func hashWith(h bloom.Hasher, key []byte, own uint64) uint64 {
	if h == (bloom.Hasher{}) {
		return own
	}
	return h.Hash(key)
}
