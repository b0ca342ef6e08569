package shale

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/manifest"
)

// FilterKind is how filters work. What was written under one choice is read
// under all.
type FilterKind int

// The kinds of filters.
const (
	// BlockedFilter: a blocked Bloom filter. One cache line a probe, cheap to
	// build, and its second half can leave memory and come back.
	BlockedFilter FilterKind = iota
	// FuseFilter: a binary fuse filter. About 9 bits a key give 0.4 % false
	// positives, where a blocked filter of 10 bits gives 1 %. A probe reads three
	// cache lines, and building takes five to ten times as long and 36 bytes a
	// key for the time being.
	FuseFilter
)

// FilterHash is the hash function of filters. What was written under one
// choice is read under all, at the cost of a second hash.
type FilterHash int

// The hash functions.
const (
	// Murmur3: MurmurHash3 x64 128, the first 64 bits.
	Murmur3 FilterHash = iota
	// XXH3: XXH3-64. Faster than murmur3 for keys of 16 bytes and more: it takes
	// two thirds of the time there, half of it for 100 bytes.
	XXH3
	// SipHash: SipHash-1-3 with a secret of the store. With the others, who may
	// choose keys can make as many absent ones as they like that every filter
	// lets pass and that cost a block read each; not with this one. It takes
	// about 4 ns more a lookup for keys of 16 bytes, 7 for 100.
	SipHash
)

// chooseHasher sets the hash function of the store. The secret of SipHash stands
// in the filters that it made, so it is that of a table, if there is one: a
// lookup then hashes once for all of them.
func (db *DB) chooseHasher(tables []*table) (err error) {
	id, seed := bloom.HashMurmur3, uint64(0)
	switch db.opts.FilterHash {
	case XXH3:
		id = bloom.HashXXH3
	case SipHash:
		id = bloom.HashSipHash
		var secret [8]byte
		_, _ = rand.Read(secret[:]) // never fails
		seed = binary.LittleEndian.Uint64(secret[:])
		if db.opts.testing.seed != 0 {
			seed = db.opts.testing.seed
		}
		for _, t := range tables {
			if f := t.filter(); f != nil && f.Hasher().ID() == id {
				seed = f.Hasher().Seed()
			}
		}
	}
	if db.hasher, err = bloom.NewHasher(id, seed); err != nil {
		return fmt.Errorf("shale: option FilterHash: %w", err)
	}
	return nil
}

// filterPolicy returns what the options say about filters.
func (db *DB) filterPolicy() filterplan.Policy {
	return filterplan.Policy{
		AverageBits:   db.opts.FilterBits,
		Memory:        db.opts.FilterMemory,
		LastLevelFuse: db.opts.LastLevelFilter == FuseFilter,
	}
}

// filterKind returns the kind of filter that tables of a level get.
func (db *DB) filterKind(level int) bloom.Kind {
	if level == manifest.NumLevels-1 && db.opts.LastLevelFilter == FuseFilter {
		return bloom.KindFuse
	}
	return bloom.KindBlocked
}
