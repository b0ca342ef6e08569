package shale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// An unsyncedFS leaves out all syncs. It is for stores that a test throws away, where a sync
// of each of many thousand small tables would take most of the time.
type unsyncedFS struct{ vfs.FS }

func (u unsyncedFS) Create(name string) (vfs.File, error) {
	f, err := u.FS.Create(name)
	return unsyncedFile{f}, err
}

func (u unsyncedFS) SyncDir(string) error { return nil }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// smallTableKey returns key i of smallTables, of 16 bytes, in ascending order of i.
func smallTableKey(dst []byte, i int) []byte { return fmt.Appendf(dst[:0], "key%013d", i) }

// smallTableKeys is the number of keys in each table of smallTables.
const smallTableKeys = 16

// smallTables makes a closed store of n small tables in dir, by ingesting them into the last
// level. Each has smallTableKeys keys with values of 256 random bytes.
func smallTables(tb testing.TB, fsys vfs.FS, dir string, n int) {
	tb.Helper()
	db, err := Open(dir, &Options{FS: fsys, TableSize: 4 << 10, CompactionWorkers: -1, Durability: SyncManual})
	if err != nil {
		tb.Fatal(err)
	}
	var key []byte
	value := make([]byte, 256)
	rng := rand.NewChaCha8([32]byte{1})
	err = db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
		for i := range n * smallTableKeys {
			_, _ = rng.Read(value) // never fails
			if key = smallTableKey(key, i); !yield(key, value) {
				return
			}
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkOpen_Tables opens stores of many small tables, whose files are in the page cache, and
// looks up one key. The time of Close does not count. SHALE_TABLES is another number of tables,
// and SHALE_TABLES_DIR a directory that keeps the stores for the next run.
func BenchmarkOpen_Tables(b *testing.B) {
	dir := os.Getenv("SHALE_TABLES_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	counts := []int{1000, 10000}
	if n, err := strconv.Atoi(os.Getenv("SHALE_TABLES")); err == nil {
		counts = []int{n}
	}
	for _, n := range counts {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := filepath.Join(dir, fmt.Sprint(n))
			if _, err := os.Stat(store); err != nil {
				smallTables(b, unsyncedFS{vfs.Default}, store, n)
			}
			key := smallTableKey(nil, n/2*smallTableKeys)
			for b.Loop() {
				db, err := Open(store, &Options{CompactionWorkers: -1, Exist: MustExist})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := db.Get(key); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
