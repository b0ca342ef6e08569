package tablefs

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// published is a small store whose tables are in a bucket.
type published struct {
	t       testing.TB
	mem     *vfs.Mem
	db      *shale.DB
	bucket  *remotetest.Fake
	version *manifest.Version
	storeID uint64
}

// publishTables makes a store of n keys, k00000000 and so on, with values of about 100 bytes that do not compress,
// and puts its tables into a bucket.
func publishTables(t testing.TB, n int, opts shale.Options) *published {
	t.Helper()
	p := &published{t: t, mem: vfs.NewMem(), bucket: remotetest.NewFake(buckets.NewMem())}
	opts.FS = p.mem
	opts.MemtableSize = cmp.Or(opts.MemtableSize, 1<<20)
	db, err := shale.Open("db", &opts)
	mustNil(t, err)
	p.db = db
	t.Cleanup(func() { _ = db.Close() })
	random := rand.New(rand.NewPCG(1, uint64(n)))
	var batch shale.Batch
	for i := range n {
		mustNil(t, batch.Put(testKey(i), testValue(random)))
		if batch.Len() == 1000 || i == n-1 {
			mustNil(t, db.Write(t.Context(), &batch))
			batch.Reset()
		}
	}
	mustNil(t, db.Compact(t.Context(), shale.Range{}))
	hold, err := shale.ShippingOf(db).Hold()
	mustNil(t, err)
	defer hold.Release()
	p.version, p.storeID = hold.State().Version, hold.State().StoreID
	for f := range FilesOf(p.version) {
		putObjectOf(t, p.mem, "db", p.bucket.Bucket, f)
	}
	return p
}

func testKey(i int) []byte { return fmt.Appendf(nil, "k%08d", i) }

func testValue(random *rand.Rand) []byte {
	v := make([]byte, 100)
	for i := range v {
		v[i] = byte(random.Uint32())
	}
	return v
}

// get fetches bytes of an object.
func (p *published) get(ctx context.Context, f File, b []byte, off int64) error {
	return f.read(ctx, p.bucket, b, off)
}

// files returns a Tables over the bucket, with a page cache of 4 MiB.
func (p *published) files(local vfs.FS, dir string) *Tables {
	p.t.Helper()
	pages := NewPageCache(4 << 20)
	if local != nil {
		mustNil(p.t, local.MkdirAll(dir))
		var err error
		pages, err = OpenPageCache(local, filepath.Join(dir, "pages"), 4<<20)
		mustNil(p.t, err)
	}
	b := New(p.bucket, p.storeID, local, dir, pages)
	p.t.Cleanup(func() { _ = b.Close() })
	b.Order(p.version)
	mustNil(p.t, b.Learn(p.t.Context(), slices.Collect(FilesOf(p.version))))
	return b
}

// localCopy returns a copy of the store's directory without tables and sidecars, on a file system that has them in the
// bucket.
func (p *published) localCopy(files *Tables) *FS {
	p.t.Helper()
	mem := vfs.NewMem()
	mustNil(p.t, mem.MkdirAll("db"))
	names, err := p.mem.List("db")
	mustNil(p.t, err)
	for _, name := range names {
		kind, _, ok := base.ParseFileName(name)
		if !ok || kind == base.FileTable || kind == base.FileFilter || kind == base.FileLock {
			continue
		}
		f, err := mem.Create(filepath.Join("db", name))
		mustNil(p.t, err)
		_, err = f.Write(remotetest.ReadFile(p.t, p.mem, filepath.Join("db", name)))
		mustNil(p.t, err)
		mustNil(p.t, f.Close())
	}
	return &FS{FS: mem, Tables: files}
}

// reader opens the store with its tables in the bucket.
func (p *published) reader(files *Tables, opts shale.Options) *shale.DB {
	p.t.Helper()
	opts.ReadOnly, opts.FS = true, p.localCopy(files)
	db, err := shale.Open("db", &opts)
	mustNil(p.t, err)
	p.t.Cleanup(func() { _ = db.Close() })
	return db
}

// putObjectOf copies a table or a sidecar of a store into a bucket.
func putObjectOf(t testing.TB, fsys vfs.FS, dir string, b bucket.Bucket, f File) {
	t.Helper()
	mustNil(t, bucket.PutObject(t.Context(), b, f.Name(), remotetest.ReadFile(t, fsys, filepath.Join(dir, f.LocalName())), false))
}
