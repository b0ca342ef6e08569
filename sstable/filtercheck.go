package sstable

import (
	"errors"

	"github.com/shaledb/shale/internal/base"
)

var (
	errNotInFilter       = errors.New("a key of the table is missing")
	errPrefixNotInFilter = errors.New("a prefix of the table is missing")
)

// A filterCheck shows, asked for the keys of a table in their order, that a filter
// knows them and their prefixes.
type filterCheck struct {
	loaded   *LoadedFilter // nil: nothing is asked
	walk     prefixWalk
	prefixes uint64 // of the keys so far
}

// key asks for a key, of which own is bloom.Hash, and for its prefix.
func (c *filterCheck) key(key []byte, own uint64) error {
	if c.loaded == nil {
		return nil
	}
	f := &c.loaded.filter
	if !f.MayContain(hashWith(f.Hasher(), key, own)) {
		return errNotInFilter
	}
	p, isNew := c.walk.next(c.loaded.rule, key)
	if !isNew {
		return nil
	}
	c.prefixes++
	if !f.MayContain(base.PrefixHash(f.Hasher().Hash(p))) {
		return errPrefixNotInFilter
	}
	return nil
}

// readFilters reads the filters to check from their files, whatever is resident.
func (v *verifier) readFilters() (err error) {
	if v.r.foot.filter.stored > 0 {
		if v.own.loaded, err = v.r.readFilter(tail{}); err != nil {
			return err
		}
	}
	if v.beside != nil {
		v.sidecar.loaded, err = v.r.ReadSidecar(v.beside)
	}
	return err
}
