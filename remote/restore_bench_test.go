package remote

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// BenchmarkRestore restores a store of 256 MB, in tables of 16 MB and a log, from a bucket in a directory
// to another one of the same disk. SHALE_RESTORE_MB sets another size.
func BenchmarkRestore(b *testing.B) {
	size := 256
	if text := os.Getenv("SHALE_RESTORE_MB"); text != "" {
		if _, err := fmt.Sscan(text, &size); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	bucket, err := NewDir(vfs.Default, filepath.Join(dir, "bucket"))
	mustNil(b, err)
	s, err := Open(b.Context(), filepath.Join(dir, "store"), bucket, &Options{
		Ship: -1, Publish: -1, Flush: -1, Retain: -1,
		Store: shale.Options{Durability: shale.SyncManual, MemtableSize: 16 << 20, CompactionWorkers: -1, Compression: shale.NoCompression},
	})
	mustNil(b, err)
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 1000)
	for i := range size * 1000 {
		for j := 0; j < len(value); j += 8 {
			value[j] = byte(rng.Uint32())
		}
		mustNil(b, s.DB().Put(fmt.Appendf(nil, "k%010d", i), value))
	}
	mustNil(b, s.Publish(b.Context()))
	mustNil(b, s.Close())
	var total int64
	n := 0
	for b.Loop() {
		to := filepath.Join(dir, fmt.Sprint("to", n))
		r, err := Restore(b.Context(), bucket, to, At{}, nil)
		mustNil(b, err)
		total = r.Bytes
		b.StopTimer()
		mustNil(b, os.RemoveAll(to))
		b.StartTimer()
		n++
	}
	b.SetBytes(total)
}
