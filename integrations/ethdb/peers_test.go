//go:build peers

package shaleeth

import (
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/shaledb/shale"
)

// BenchmarkPeers runs go-ethereum's benchmarks on the store and on pebble, which is the default of
// geth: each in a directory, without a sync of each write, with 64 MiB for cache and memtables. The
// suite does not look at b.N, so it has to run with -benchtime 1x. It is behind a tag because Pebble
// takes long to compile.
func BenchmarkPeers(b *testing.B) {
	for _, side := range []struct {
		name string
		open func(dir string) (ethdb.KeyValueStore, error)
	}{
		{"shale", func(dir string) (ethdb.KeyValueStore, error) {
			return Open(dir, &shale.Options{Durability: shale.SyncManual, CacheSize: 32 << 20, MemtableSize: 16 << 20})
		}},
		{"pebble", func(dir string) (ethdb.KeyValueStore, error) { return pebble.New(dir, 64, 256, "", false) }},
	} {
		b.Run(side.name, func(b *testing.B) {
			dbtest.BenchDatabaseSuite(b, func() ethdb.KeyValueStore {
				db, err := side.open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				return db
			})
		})
	}
}
