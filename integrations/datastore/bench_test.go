package shaleds

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	leveldb "github.com/ipfs/go-ds-leveldb"
	"github.com/shaledb/shale"
)

// BenchmarkDatastore compares the calls of a block store with go-ds-leveldb: 200,000 blocks of 1
// KiB in a directory, neither of which syncs each write. Both have a cache of 8 MiB, which is what
// go-ds-leveldb has by default.
func BenchmarkDatastore(b *testing.B) {
	const blocks = 200_000
	key := func(i int) ds.Key { return ds.NewKey(fmt.Sprintf("/blocks/%x", uint64(i)*0x9e3779b97f4a7c15)) }
	value := make([]byte, 1024)
	_, _ = rand.Read(value) // it never fails
	for _, side := range []struct {
		name string
		open func(dir string) (ds.Batching, error)
	}{
		{"shale", func(dir string) (ds.Batching, error) {
			return Open(dir, &shale.Options{Durability: shale.SyncManual, CacheSize: 8 << 20})
		}},
		{"leveldb", func(dir string) (ds.Batching, error) {
			return leveldb.NewDatastore(dir, &leveldb.Options{NoSync: true})
		}},
	} {
		b.Run(side.name, func(b *testing.B) {
			ctx := context.Background()
			d, err := side.open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			b.Run("batch of 100 puts", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					batch, err := d.Batch(ctx)
					for j := range 100 {
						if err == nil {
							err = batch.Put(ctx, key((i*100+j)%blocks), value)
						}
					}
					if err != nil || batch.Commit(ctx) != nil {
						b.Fatal("a batch was not written", err)
					}
				}
			})
			for i := range blocks { // also those that the loop has not come to
				if err := d.Put(ctx, key(i), value); err != nil {
					b.Fatal(err)
				}
			}
			for _, ask := range []struct {
				name  string
				first int
			}{{"has absent", blocks}, {"has", 0}} {
				b.Run(ask.name, func(b *testing.B) {
					for i := 0; b.Loop(); i++ {
						if known, err := d.Has(ctx, key(ask.first+i*7919%blocks)); err != nil || known != (ask.first == 0) {
							b.Fatal(known, err)
						}
					}
				})
			}
			b.Run("get", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if _, err := d.Get(ctx, key(i*7919%blocks)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("query all keys", func(b *testing.B) {
				for b.Loop() {
					results, err := d.Query(ctx, query.Query{Prefix: "/blocks", KeysOnly: true})
					n := 0
					for ; err == nil; n++ {
						if _, ok := results.NextSync(); !ok {
							break
						}
					}
					if n != blocks {
						b.Fatal(n, err)
					}
				}
			})
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
