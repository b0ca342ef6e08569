package main

import (
	"crypto/md5"
	"math/bits"
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

// The ways that may be wrong: they may take a new URL for one that was seen.
const (
	bitmapAlone = "bitmap of one hash"
	filterAlone = "filter alone"
)

// ways are all ways, in the order of the table.
var ways = []struct {
	name  string
	keeps string // what a kill of the process leaves
	open  func(plan) (way, error)
}{
	{"set of strings", "nothing", openStrings},
	{"set of MD5 digests", "nothing", openDigests},
	{bitmapAlone, "nothing", openBitmap},
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

// A digestSet is a set of the MD5 digests of the URLs, 16 bytes each. By chance two URLs never
// have the same one. But whoever chooses both can find two that do, and so hide a page
// behind another one from the crawler. With 128 bits of SHA-256 nobody can. They take as much
// memory, and on most machines as much time.
type digestSet map[digest]struct{}

type digest [md5.Size]byte

func openDigests(plan) (way, error) { return digestSet{}, nil }

func (s digestSet) visit(url []byte) (bool, error) {
	d := digest(md5.Sum(url))
	if _, seen := s[d]; seen {
		return true, nil
	}
	s[d] = struct{}{}
	return false, nil
}

func (s digestSet) counts(*result) {}
func (s digestSet) close() error   { return nil }

// A bitmap has one bit for each hash of a URL: a Bloom filter with one probe. It has as many
// bits as the filter, so that the two show what more probes are good for. Its hash function
// has a secret, for the reason given at digestSet.
type bitmap struct {
	words  []uint64
	hasher bloom.Hasher
}

func openBitmap(p plan) (way, error) {
	hasher, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		return nil, err
	}
	return &bitmap{make([]uint64, int(p.bits*float64(p.distinct))/64+1), hasher}, nil
}

func (b *bitmap) visit(url []byte) (bool, error) {
	i, _ := bits.Mul64(b.hasher.Hash(url), uint64(len(b.words))*64)
	seen := b.words[i/64]>>(i%64)&1 != 0
	b.words[i/64] |= 1 << (i % 64)
	return seen, nil
}

func (b *bitmap) counts(r *result) { r.FilterBytes = int64(len(b.words)) * 8 }
func (b *bitmap) close() error     { return nil }

// A filter is a Bloom filter without anything behind it. A new URL that it takes for seen
// is never crawled. Its hash function has a secret, for the reason given at digestSet.
type filter struct{ bits *bloom.AtomicBlocked }

func openFilter(p plan) (way, error) {
	hasher, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		return nil, err
	}
	bits, err := bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: uint64(p.distinct), BitsPerKey: p.bits, Hasher: hasher})
	if err != nil {
		return nil, err
	}
	return &filter{bits}, nil
}

func (f *filter) visit(url []byte) (bool, error) {
	if f.bits.MayContain(url) {
		return true, nil
	}
	return false, f.bits.Add(url)
}

func (f *filter) counts(r *result) { r.FilterBytes = int64(f.bits.SizeBytes()) }
func (f *filter) close() error     { return nil }
