package main

import (
	"crypto/sha256"
	"math/rand/v2"

	"github.com/shaledb/shale/bloom"
)

// A way remembers which URLs were seen. One goroutine uses it.
type way interface {
	// visit reports whether url was seen before, and remembers it. It does not
	// keep the slice.
	visit(url []byte) (seen bool, err error)
	// counts adds the counters of the way to a result.
	counts(r *result)
	// close makes durable what has to stay, and frees the rest.
	close() error
}

// A plan says how to open a way: the flags, its directory, and the number of
// different URLs.
type plan struct {
	config
	dir      string
	distinct int
}

// filterAlone is the name of the only way that may be wrong.
const filterAlone = "filter alone"

// ways are all ways, in the order of the table.
var ways = []struct {
	name  string
	keeps string // what a kill of the process leaves
	open  func(plan) (way, error)
}{
	{"set of strings", "nothing", openStrings},
	{"set of digests", "nothing", openDigests},
	{filterAlone, "nothing", openFilter},
	{"SQLite", "all but a batch", openTable},
	{"shale", "all", openStore},
	{"shale, no filters", "all", openBareStore},
}

// A stringSet is a set of the URLs themselves. It is never wrong, and large.
type stringSet map[string]struct{}

func openStrings(plan) (way, error) { return stringSet{}, nil }

func (s stringSet) visit(url []byte) (bool, error) {
	if _, seen := s[string(url)]; seen {
		return true, nil
	}
	s[string(url)] = struct{}{}
	return false, nil
}

func (s stringSet) counts(*result) {}
func (s stringSet) close() error   { return nil }

// A digestSet is a set of 128 bits of SHA-256 of each URL. Strangers choose the URLs, so
// the function has to be one for which nobody can find collisions. Otherwise a page could
// hide another one from the crawler.
type digestSet map[digest]struct{}

type digest [16]byte

func openDigests(plan) (way, error) { return digestSet{}, nil }

func (s digestSet) visit(url []byte) (bool, error) {
	sum := sha256.Sum256(url)
	d := digest(sum[:])
	if _, seen := s[d]; seen {
		return true, nil
	}
	s[d] = struct{}{}
	return false, nil
}

func (s digestSet) counts(*result) {}
func (s digestSet) close() error   { return nil }

// A filter is a Bloom filter without anything behind it. A new URL that it takes for seen
// is never crawled. Its hash function has a secret, for the reason given at digestSet.
type filter struct {
	bits   *bloom.AtomicBlocked
	hasher bloom.Hasher
}

func openFilter(p plan) (way, error) {
	hasher, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		return nil, err
	}
	return &filter{bloom.NewAtomicBlocked(p.distinct, p.bits), hasher}, nil
}

func (f *filter) visit(url []byte) (bool, error) {
	h := f.hasher.Hash(url)
	if f.bits.MayContain(h) {
		return true, nil
	}
	f.bits.Add(h)
	return false, nil
}

func (f *filter) counts(r *result) { r.FilterBytes = int64(f.bits.SizeBytes()) }
func (f *filter) close() error     { return nil }
