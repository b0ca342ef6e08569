package server

import (
	"bytes"
	"slices"

	"github.com/shaledb/shale"
)

// The store does not count names: a SET would have to look whether its name is new. So up to exactMost names are counted one
// by one, and of more DBSIZE is an estimate. The tables know how many entries they have, and about how many of these
// lie between two keys, but not how many are overwritten, deleted or over. That share is found at some places, where the
// names that are there are counted, and the entries of all tables between the same two keys.
const (
	exactMost   = 65_536
	samples     = 16
	sampleNames = 4096
)

// A keyspace is how many names there are, and about how many of them expire.
type keyspace struct {
	names, expiring int64
	exact           bool
}

// size counts names. It takes as long for a billion names as for some hundred thousand.
func (c *client) size(r shale.Reader) (k keyspace, err error) {
	k, _, err = countNames(r, []byte{nameSpace}, exactMost+1)
	if k.exact = k.names <= exactMost; k.exact || err != nil {
		return k, err
	}
	err = c.s.config.Store.View(func(db *shale.DB) error {
		k, err = estimateNames(db)
		return err
	})
	return k, err
}

// countNames counts at most most names whose keys in the store are not before from, and returns the last one of these.
func countNames(r shale.Reader, from []byte, most int) (k keyspace, last []byte, err error) {
	for e, err := range r.Scan(shale.Range{Lower: from, Upper: []byte{nameSpace + 1}, KeysOnly: true, Limit: most}) {
		if err != nil {
			return k, nil, err
		}
		k.names++
		if !e.ExpiresAt.IsZero() {
			k.expiring++
		}
		last = append(last[:0], e.Key...)
	}
	return k, last, nil
}

// estimateNames returns about how many names a store has.
func estimateNames(db *shale.DB) (keyspace, error) {
	tables := db.Inspect().Tables()
	begin, end := []byte{nameSpace}, []byte{nameSpace + 1}
	entries := func(from, to []byte) (n float64) {
		for _, t := range tables {
			n += float64(t.Entries) * (t.Rank(to) - t.Rank(from))
		}
		return n
	}
	all := entries(begin, end)
	if all < exactMost { // nearly all is in the memtables, whose size has a limit
		k, _, err := countNames(db, begin, 0)
		return k, err
	}
	starts := [][]byte{begin}
	for _, t := range tables {
		if bytes.Compare(begin, t.Smallest) < 0 && bytes.Compare(t.Smallest, end) < 0 {
			starts = append(starts, t.Smallest)
		}
	}
	slices.SortFunc(starts, bytes.Compare)
	var seen keyspace
	between := 0.0
	for i := range min(samples, len(starts)) {
		from := starts[i*len(starts)/min(samples, len(starts))]
		k, last, err := countNames(db, from, sampleNames)
		if err != nil {
			return k, err
		}
		seen.names += k.names
		seen.expiring += k.expiring
		between += entries(from, append(last, 0))
	}
	share := all / max(1, between)
	return keyspace{names: int64(float64(seen.names) * share), expiring: int64(float64(seen.expiring) * share)}, nil
}

// dbSize is DBSIZE.
func (c *client) dbSize(r shale.Reader, _ [][]byte) error {
	k, err := c.size(r)
	c.Integer(k.names)
	return err
}
