package main

import (
	"crypto/sha256"
	"math/rand/v2"

	"github.com/shaledb/shale/bloom"
)

// A way remembers which URLs were seen.
type way interface {
	// visit tells whether url was seen before, and remembers it. It does not
	// keep the slice.
	visit(url []byte) (seen bool, err error)
	// counts adds what the way has counted to a result.
	counts(r *result)
	// close makes durable what is to stay, and frees the rest.
	close() error
}

// A plan says how a way is made: in dir, for so many different URLs.
type plan struct {
	config
	dir      string
	distinct int
}

// filterAlone is the way that may be wrong.
const filterAlone = "filter alone"

// ways are the ways in the order of the table.
var ways = []struct {
	name  string
	keeps string // what is still known after the process was killed
	open  func(plan) (way, error)
}{
	{"set of strings", "nothing", openStrings},
	{"set of digests", "nothing", openDigests},
	{filterAlone, "nothing", openFilter},
	{"SQLite", "all but a batch", openTable},
	{"shale", "all", openStore},
	{"shale, no filters", "all", openBareStore},
}

// A stringSet is a set of the URLs themselves: never wrong, and large.
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

// A digestSet is a set of 128 bits of SHA-256 of each URL. Strangers choose the
// URLs, so it takes a function that they find no collisions of: a page could
// else hide another one from the crawler.
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

// A filter is nothing but bits. What it takes for seen though it is new is never
// crawled. Its hash function has a secret, for the reason that digestSet gives.
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
