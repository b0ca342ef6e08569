package main

import (
	"github.com/shaledb/shale"
)

// A store is shale as a way. Its filters in memory answer for most new URLs. If they say
// maybe, it looks at the disk. It is never wrong.
type store struct {
	db *shale.DB
}

func openStore(p plan) (way, error)     { return open(p.dir, p.bits) }
func openBareStore(p plan) (way, error) { return open(p.dir, -1) }

// open opens a store with bits bits of filter a key. Its memtable is small, because
// otherwise a few hundred thousand URLs would not fill it, and there would be no tables.
func open(dir string, bits float64) (way, error) {
	db, err := shale.Open(dir, &shale.Options{
		Durability:   shale.SyncManual,
		MemtableSize: 1 << 20,
		TableSize:    4 << 20,
		CacheSize:    cacheBytes,
		FilterBits:   bits,
		FilterHash:   shale.SipHash, // strangers choose the URLs
	})
	if err != nil {
		return nil, err
	}
	return &store{db}, nil
}

// visit is one call. PutIfAbsent asks the filters itself, as Has and MayContain do. If
// several goroutines come with the same URL, exactly one of them learns that it is new.
func (s *store) visit(url []byte) (bool, error) {
	inserted, err := s.db.PutIfAbsent(url, nil)
	return !inserted, err
}

func (s *store) counts(r *result) {
	m := s.db.Metrics()
	r.FilterBytes = m.FilterMemory
	r.InVain = m.FilterFalsePositive
	r.Spared = m.FilterNegative
	r.LookedInto = m.FilterTruePositive + m.FilterFalsePositive + m.NoFilter
}

func (s *store) close() error { return s.db.Close() }
