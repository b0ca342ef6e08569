package crypt_test

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// The benchmarks compare a store with an encrypted one. Both are open, and do the same in turn, a call or a
// few at a time, so that what else the machine does slows both. Each iteration opens them again, and gives a
// ratio of the medians; what is reported is the median of the ratios. For figures:
//
//	go test ./vfs/crypt -run - -bench . -benchtime 11x
//
// They want a disk for the directory of temporary files.

// A pair are the two stores of a benchmark.
type pair struct {
	b    *testing.B
	disk [2]vfs.FS
	dirs [2]string
}

func newPair(b *testing.B) *pair {
	return &pair{b: b, disk: [2]vfs.FS{vfs.Default, over(b, vfs.Default, key(1, 1))}, dirs: [2]string{b.TempDir(), b.TempDir()}}
}

func (p *pair) open(i int, o shale.Options) *shale.DB {
	o.FS = p.disk[i]
	db, err := shale.Open(filepath.Join(p.dirs[i], "db"), &o)
	must(p.b, err)
	return db
}

// run times n times a few calls of both in turn, for each iteration.
func (p *pair) run(n, few int, call func(i int) (do func(), end func())) {
	var took [2][]float64
	var ratios []float64
	for p.b.Loop() {
		var now [2][]float64
		var do, end [2]func()
		for i := range do {
			do[i], end[i] = call(i)
		}
		for k := range 2 * n {
			i := (k + k/2) % 2 // each is the first one every other time
			begin := time.Now()
			for range few {
				do[i]()
			}
			now[i] = append(now[i], float64(time.Since(begin).Nanoseconds())/float64(few))
		}
		for i := range end {
			end[i]()
			took[i] = append(took[i], median(now[i]))
		}
		ratios = append(ratios, median(now[1])/median(now[0]))
	}
	p.b.ReportMetric(median(took[0]), "plain-ns")
	p.b.ReportMetric(median(took[1]), "crypt-ns")
	p.b.ReportMetric(median(ratios), "ratio")
	p.b.ReportMetric(0, "ns/op")
}

func median(list []float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

const benchKeys = 1_000_000

func benchKey(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15) }

// load fills both stores.
func (p *pair) load() {
	value := make([]byte, 100)
	for i := range p.dirs {
		db := p.open(i, shale.Options{Durability: shale.SyncManual})
		r := rand.NewChaCha8([32]byte{})
		for k := range uint64(benchKeys) {
			_, _ = r.Read(value) // never fails
			must(p.b, db.Put(benchKey(k), value))
		}
		must(p.b, db.Compact(p.b.Context(), shale.Range{}))
		must(p.b, db.Close())
	}
}

// drop drops the files of a store from the page cache.
func (p *pair) drop(i int) {
	dir := filepath.Join(p.dirs[i], "db")
	names, err := vfs.Default.List(dir)
	must(p.b, err)
	for _, name := range names {
		f, err := vfs.Default.Open(filepath.Join(dir, name))
		must(p.b, err)
		must(p.b, vfs.DropCache(f))
		must(p.b, f.Close())
	}
}

// get times Gets without the block cache, and without the page cache if cold is set.
func (p *pair) get(n, few int, cold bool) {
	p.load()
	seed := uint64(0)
	p.run(n, few, func(i int) (func(), func()) {
		if cold {
			p.drop(i)
		}
		db := p.open(i, shale.Options{CacheSize: -1})
		seed++
		r := rand.New(rand.NewPCG(seed/2, 0)) // other keys for each of the two
		return func() {
			_, err := db.Get(benchKey(r.Uint64N(benchKeys)))
			must(p.b, err)
		}, func() { must(p.b, db.Close()) }
	})
}

func BenchmarkGet_Cold(b *testing.B)     { newPair(b).get(2_000, 1, true) }
func BenchmarkGet_Uncached(b *testing.B) { newPair(b).get(1_000, 100, false) }

func (p *pair) put(n, few int, d shale.Durability) {
	next := uint64(0)
	p.run(n, few, func(i int) (func(), func()) {
		db := p.open(i, shale.Options{Durability: d})
		return func() {
			next++
			must(p.b, db.Put(benchKey(next), make([]byte, 100)))
		}, func() { must(p.b, db.Close()) }
	})
}

func BenchmarkPut_Synced(b *testing.B)   { newPair(b).put(1_000, 1, shale.SyncEach) }
func BenchmarkPut_Unsynced(b *testing.B) { newPair(b).put(1_000, 200, shale.SyncManual) }

func BenchmarkScan(b *testing.B) {
	p := newPair(b)
	p.load()
	p.run(3, 1, func(i int) (func(), func()) {
		db := p.open(i, shale.Options{CacheSize: -1})
		return func() {
			for _, err := range db.Scan(shale.Range{}) {
				must(b, err)
			}
		}, func() { must(b, db.Close()) }
	})
}
