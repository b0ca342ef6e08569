package sstable

import (
	"errors"

	"github.com/shaledb/shale/internal/base"
)

var (
	errNotInFilter       = errors.New("a key of the table is missing")
	errPrefixNotInFilter = errors.New("a prefix of the table is missing")
)

// A filterCheck checks that a filter knows the keys of a table and their prefixes. Its caller
// passes the keys in their order.
type filterCheck struct {
	loaded   *LoadedFilter // nil: there is no filter to check
	walk     prefixWalk
	prefixes uint64 // distinct prefixes of the keys so far
}

// key asks the filter for a key and, if no key before had it, for the key's prefix. own is
// bloom.Hash(key). The error says which of them the filter denies.
func (c *filterCheck) key(key []byte, own uint64) error {
	if c.loaded == nil {
		return nil
	}
	f := &c.loaded.filter
	if !f.MayContainHash(hashWith(f.Hasher(), key, own)) {
		return errNotInFilter
	}
	p, isNew := c.walk.next(c.loaded.rule, key)
	// Keys with the same prefix are neighbours, so each prefix is asked for once.
	if !isNew {
		return nil
	}
	c.prefixes++
	if !f.MayContainHash(base.PrefixHash(f.Hasher().Hash(p))) {
		return errPrefixNotInFilter
	}
	return nil
}

// readFilters reads the filters to check from their files. It does not use those in memory:
// the check is about the files.
func (v *verifier) readFilters() (err error) {
	if v.r.foot.filter.stored > 0 {
		if v.own.loaded, err = v.r.readFilter(tail{}); err != nil {
			return err
		}
	}
	if v.given != nil {
		v.sidecar.loaded, err = v.r.ReadSidecar(v.given)
	}
	return err
}
