package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
)

// A hashCollector collects the hashes of a table's user keys while the table is written. The
// filter is built at the end, because its size depends on the number of keys.
//
// sum adds up all hashes as they come in. buildFilter computes it again from the list. If
// memory has changed in between, the sums differ, and no filter is written that might deny a
// key.
type hashCollector struct {
	wanted bool // a filter will be built; false: addKey does nothing
	list   hashList
	sum    uint64

	hasher   bloom.Hasher
	rule     base.PrefixRule
	walk     prefixWalk
	prefixes uint64 // distinct prefixes of the keys so far, by rule
}

// newHashCollector returns a collector. Its user must call release, because a long list is
// not on the heap.
func newHashCollector(h bloom.Hasher, rule base.PrefixRule) hashCollector {
	return hashCollector{wanted: true, hasher: h, rule: rule}
}

// addKey adds the hash of a key and, if no key before had it, that of the key's prefix. own
// is bloom.Hash(key). Requires: key is greater than the one before.
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

// A prefixWalk finds the distinct prefixes of keys that come in ascending order. Keys with
// the same prefix are neighbours, so it compares each prefix with the last one. It never
// compares a prefix with a key, which may consist of the same bytes.
type prefixWalk struct {
	last  []byte
	begun bool
}

// next returns the prefix of key. isNew is false if the key has no prefix, or if a key before
// had the same one. The result is valid until the next call.
func (w *prefixWalk) next(rule base.PrefixRule, key []byte) (prefix []byte, isNew bool) {
	p, ok := rule.Of(key)
	if !ok || w.begun && bytes.Equal(p, w.last) {
		return nil, false
	}
	w.last, w.begun = append(w.last[:0], p...), true
	return p, true
}

// mixHash returns a number for hashCollector.sum. Each bit of h changes it in more than one
// place, so that changes in two hashes hardly cancel each other.
func mixHash(h uint64) uint64 { return (h ^ h>>29) * 0x9fb21c651e98df25 }

// release frees the list. It may be called more than once.
func (c *hashCollector) release() {
	c.list.free()
	*c = hashCollector{}
}

var errHashSum = errors.New("sstable: build filter: hashes changed in memory")

// The file offset of a filter block is a multiple of filterAlign. So the lines of the filter
// are cache lines when the file is mapped. Part of the file format.
const filterAlign = 64

// writeFilter builds the filter of the keys that were added and writes it, after zeros that
// align it. It returns a zero handle, and writes nothing, if there is to be no filter.
func (w *Writer) writeFilter() (handle, error) {
	if len(w.hashes.list.all) == 0 {
		return handle{}, nil
	}
	w.props.FilterBits, w.props.prefixRule, w.props.prefixes = w.opts.FilterBits, w.opts.PrefixRule, w.hashes.prefixes
	filter, err := buildFilter(w.opts.Builder, w.hashes.list.all, w.hashes.sum, bloom.StaticOptions{
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

// checksAtOnce is how many hashes buildFilter looks for before other goroutines get the processor.
const checksAtOnce = 16 << 10

// buildFilter returns the bytes of a filter that has all hashes. A filter must never deny a
// key of its table, so buildFilter asks the finished filter for every hash. It also checks
// with sum that the hashes are still those that were collected. builder may be nil.
func buildFilter(builder *bloom.StaticBuilder, hashes []uint64, sum uint64, o bloom.StaticOptions) ([]byte, error) {
	if builder == nil {
		builder = new(bloom.StaticBuilder)
	}
	o.Kind, _ = filterplan.ChooseKind(len(hashes), o)
	b, err := builder.Append(nil, hashes, o)
	if err != nil && o.Kind != bloom.KindBlocked { // by chance, and rarely
		o.Kind = bloom.KindBlocked
		b, err = builder.Append(nil, hashes, o)
	}
	if err != nil {
		return nil, fmt.Errorf("sstable: build filter: %w", err)
	}
	filter, err := bloom.OpenStatic(b)
	if err != nil {
		return nil, fmt.Errorf("sstable: build filter: %w", err)
	}
	for i, h := range hashes {
		if i%checksAtOnce == 0 {
			runtime.Gosched()
		}
		if !filter.MayContainHash(h) {
			return nil, errors.New("sstable: build filter: a key is missing in the result")
		}
		sum -= mixHash(h)
	}
	if sum != 0 {
		return nil, errHashSum
	}
	return b, nil
}

// hashWith returns the hash of key by h. own is bloom.Hash(key), the store's default, which
// the tags of data blocks need in any case.
func hashWith(h bloom.Hasher, key []byte, own uint64) uint64 {
	if h == (bloom.Hasher{}) {
		return own
	}
	return h.Hash(key)
}
