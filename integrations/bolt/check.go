package bbolt

import (
	"fmt"

	"github.com/shaledb/shale"
)

// This file has what walks over all of a bucket, or of the store: Inspect, Stats of a bucket, and Check.

// A BucketStructure is what Inspect returns of a bucket.
type BucketStructure struct {
	Name     string            `json:"name"`
	KeyN     int               `json:"keyN"`              // keys with values
	Children []BucketStructure `json:"buckets,omitempty"` // the buckets in it
}

// Inspect returns the structure of the bucket, whose name is "root" there.
func (b *Bucket) Inspect() BucketStructure { return b.inspect("root") }

func (b *Bucket) inspect(name string) BucketStructure {
	s := BucketStructure{Name: name}
	_ = b.ForEach(func(k, v []byte) error { // nothing in it returns an error
		if v == nil {
			s.Children = append(s.Children, b.Bucket(k).inspect(string(k)))
		} else {
			s.KeyN++
		}
		return nil
	})
	return s
}

// BucketStats are about a bucket and all that is in it.
type BucketStats struct {
	BranchPageN, BranchOverflowN, LeafPageN, LeafOverflowN int // 0

	KeyN  int // keys with values, and keys with buckets
	Depth int // 1, and that of the deepest bucket in it

	BranchAlloc, BranchInuse int // 0
	LeafAlloc, LeafInuse     int // bytes of keys and values

	BucketN                          int // buckets, itself included
	InlineBucketN, InlineBucketInuse int // 0
}

// Add adds other to s. The depth is the greater one.
func (s *BucketStats) Add(other BucketStats) {
	s.KeyN += other.KeyN
	s.Depth = max(s.Depth, other.Depth)
	s.LeafAlloc += other.LeafAlloc
	s.LeafInuse += other.LeafInuse
	s.BucketN += other.BucketN
}

// Stats counts what is in the bucket. It reads all of it.
func (b *Bucket) Stats() BucketStats {
	s, within := BucketStats{BucketN: 1}, BucketStats{}
	_ = b.ForEach(func(k, v []byte) error { // nothing in it returns an error
		s.KeyN++
		s.LeafInuse += len(k) + len(v)
		if v == nil {
			within.Add(b.Bucket(k).Stats())
		}
		return nil
	})
	s.LeafAlloc = s.LeafInuse
	s.Depth = 1 + within.Depth
	s.Add(within)
	return s
}

// Check reads the whole store, and sends what is wrong with its structure: a key that is none of this package, a bucket that
// is in no bucket or in two, or one that does not say that it may have others in it. The channel is closed when it is done.
// Damaged bytes are found by Verify of the Store.
func (tx *Tx) Check() <-chan error {
	tx.mustBeOpen()
	wrong := make(chan error)
	problems := tx.check()
	go func() {
		defer close(wrong)
		for _, err := range problems {
			wrong <- err
		}
	}()
	return wrong
}

// check returns what Check sends. It does not wait for anybody to read it, so the transaction may go on.
func (tx *Tx) check() (problems []error) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf("bolt: "+format, args...)) }
	if tx.writable {
		if err := tx.flush(); err != nil {
			report("%w", err)
		}
	}
	next := tx.current().next
	parents, headers := map[uint64]uint64{}, map[uint64]header{0: tx.root.header}
	filled, parted := map[uint64]bool{}, map[uint64]bool{} // the buckets that have something, and those that have buckets
	for e, err := range tx.read.Scan(shale.Range{Lower: stateKey}) {
		if err != nil {
			report("check: %w", err)
			return problems
		}
		if string(e.Key) == string(stateKey) {
			continue
		}
		number, part, name, ok := cutKey(e.Key)
		if !ok {
			report("key %x is none of this package", e.Key)
			continue
		}
		filled[number] = true
		if part == partValues {
			continue
		}
		parted[number] = true
		h, err := decodeHeader(e.Value)
		if err != nil {
			report("bucket %q in bucket %d: %w", name, number, err)
			continue
		}
		if in, twice := parents[h.number]; twice {
			report("bucket %d is in buckets %d and %d", h.number, in, number)
		}
		if h.number >= next {
			report("bucket %d has a number that was not given out: the next one is %d", h.number, next)
		}
		parents[h.number], headers[h.number] = number, h
	}
	for number := range filled {
		h, known := headers[number]
		if !known {
			report("bucket %d is in no bucket", number)
		} else if parted[number] && !h.parent {
			report("bucket %d has buckets in it, and does not say so", number)
		}
	}
	return append(problems, circles(parents)...)
}

// circles finds buckets that are in themselves, maybe by way of others.
func circles(parents map[uint64]uint64) (problems []error) {
	good := map[uint64]bool{0: true} // those that are known to be in the root
	for number := range parents {
		var path []uint64
		for n, on := number, true; on && !good[n]; {
			if len(path) > len(parents) {
				return append(problems, fmt.Errorf("bolt: bucket %d is in itself", n))
			}
			path = append(path, n)
			n, on = parents[n]
		}
		for _, n := range path {
			good[n] = true
		}
	}
	return problems
}
