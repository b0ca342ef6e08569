package remote

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// benchMB is how many megabytes the stores of the benchmarks of restores have: 256, or SHALE_RESTORE_MB.
func benchMB(b *testing.B) int {
	size := 256
	if text := os.Getenv("SHALE_RESTORE_MB"); text != "" {
		if _, err := fmt.Sscan(text, &size); err != nil {
			b.Fatal(err)
		}
	}
	return size
}

// fillBucket publishes a store of so many megabytes, in tables of 16 MB and a log, in a bucket in a directory. The
// directory of the store is removed. It returns the bucket and its directory.
func fillBucket(b *testing.B, dir string, size int) (Bucket, string) {
	at := filepath.Join(dir, "bucket")
	bucket, err := NewDir(vfs.Default, at)
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
	mustNil(b, os.RemoveAll(filepath.Join(dir, "store")))
	return bucket, at
}

// BenchmarkRestore restores a store of 256 MB from a bucket in a directory to another one of the same disk, and next
// to it copies the same tables with a loop that reads 4 MiB, writes them, and syncs each file: the disk's own speed.
// SHALE_RESTORE_MB sets another size. A store of 10 GB takes 30 GB of room:
//
//	SHALE_RESTORE_MB=10240 go test -run '^$' -bench Restore -benchtime 1x -timeout 1h .
func BenchmarkRestore(b *testing.B) {
	dir := b.TempDir()
	bucket, at := fillBucket(b, dir, benchMB(b))
	n := 0
	to := func() string {
		n++
		return filepath.Join(dir, fmt.Sprint("to", n))
	}
	run := func(name string, do func(to string) int64) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				path := to()
				b.SetBytes(do(path))
				b.StopTimer()
				mustNil(b, os.RemoveAll(path))
				b.StartTimer()
			}
		})
	}
	run("copy", func(to string) int64 { return copyTables(b, bucket, at, to) })
	run("restore", func(to string) int64 {
		r, err := Restore(context.Background(), bucket, to, At{}, nil)
		mustNil(b, err)
		return r.Bytes
	})
}

// copyTables copies the files of the tables of a bucket in a directory, and returns their bytes.
func copyTables(b *testing.B, bucket Bucket, at, to string) (total int64) {
	mustNil(b, os.MkdirAll(to, 0o755))
	buf := make([]byte, 4<<20)
	for info, err := range bucket.List(context.Background(), object.TableFolder, "") {
		mustNil(b, err)
		from, err := os.Open(filepath.Join(at, filepath.FromSlash(info.Name)))
		mustNil(b, err)
		f, err := os.Create(filepath.Join(to, filepath.Base(info.Name)))
		mustNil(b, err)
		n, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{from}, buf)
		mustNil(b, err)
		total += n
		mustNil(b, f.Sync())
		mustNil(b, f.Close())
		mustNil(b, from.Close())
	}
	return total
}

// BenchmarkPromote makes a reader the owner of a store of 256 MB, or SHALE_RESTORE_MB, in a bucket in a directory: into
// a new directory, and into one that the reader has warmed. The old writer is gone. Logs have up to 16 MB that
// no table has:
//
//	SHALE_RESTORE_MB=1024 go test -run '^$' -bench Promote -benchtime 3x .
func BenchmarkPromote(b *testing.B) {
	dir := b.TempDir()
	bucket, _ := fillBucket(b, dir, benchMB(b))
	n := 0
	for _, warm := range []bool{false, true} {
		b.Run(map[bool]string{false: "cold", true: "warm"}[warm], func(b *testing.B) {
			r, err := OpenReader(b.Context(), bucket, nil)
			mustNil(b, err)
			defer r.Close()
			for b.Loop() {
				n++
				to := filepath.Join(dir, fmt.Sprint("to", n))
				if warm {
					b.StopTimer()
					mustNil(b, r.Warm(context.Background(), to, nil))
					b.StartTimer()
				}
				s, err := r.Promote(context.Background(), to, nil)
				mustNil(b, err)
				b.StopTimer()
				mustNil(b, s.Close())
				mustNil(b, os.RemoveAll(to))
				b.StartTimer()
			}
		})
	}
}
