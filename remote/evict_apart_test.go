package remote

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// namesBelow returns the names of all files and directories below one.
func namesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	mustNil(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return names
}

// refusedFor checks that a call is refused because copies would lie in the directory of a bucket, and that it leaves all as it was.
func refusedFor(t *testing.T, what, bucket string, call func() error) {
	t.Helper()
	root, err := filepath.EvalSymlinks(bucket)
	mustNil(t, err)
	before := namesBelow(t, ".")
	err = call()
	if err == nil || !strings.Contains(err.Error(), "for copies of what a bucket has") || !strings.Contains(err.Error(), filepath.Join(root, ".put")) {
		t.Errorf("%s with copies in the bucket %s: %v", what, bucket, err)
	}
	if after := namesBelow(t, "."); !slices.Equal(after, before) {
		t.Errorf("%s has left %q, there were %q", what, after, before)
	}
}

// evictingIn returns options for a store on the disk that lets go of tables.
func evictingIn() *Options {
	o := manual(vfs.Default)
	evicting(o)
	return o
}

// TestEvict_BucketInTheWay: tails have the names of objects. So copies never go where a bucket has its objects, whatever name leads
// there.
func TestEvict_BucketInTheWay(t *testing.T) {
	for _, c := range []struct{ bucket, dir string }{
		{"db/bucket", "db"}, {"db/bucket/t", "db"}, {"db", "db"}, {"around", "around/db"}, {"elsewhere", "db"}, {"real/bucket", "link"},
	} {
		t.Chdir(t.TempDir())
		b, err := NewDir(nil, c.bucket)
		mustNil(t, err)
		switch c.bucket {
		case "elsewhere":
			mustNil(t, os.Mkdir("db", 0o755))
			mustNil(t, os.Symlink(filepath.Join("..", c.bucket), filepath.Join("db", copiesDir)))
		case "real/bucket":
			mustNil(t, os.Symlink("real", c.dir))
		}
		refusedFor(t, "Open", c.bucket, func() error {
			_, err := Open(t.Context(), c.dir, b, evictingIn())
			return err
		})
		refusedFor(t, "TakeOver", c.bucket, func() error {
			_, err := TakeOver(t.Context(), b, c.dir, evictingIn())
			return err
		})
	}
}

// TestEvict_BucketInTheStore: a bucket in the folder of the store serves a store all of whose tables are local. It does not serve one
// that makes copies there, and a reader has its copies elsewhere too.
func TestEvict_BucketInTheStore(t *testing.T) {
	t.Chdir(t.TempDir())
	b, err := NewDir(nil, "db/bucket")
	mustNil(t, err)
	model := make(map[string]string)
	for range 2 {
		s := openStore(t, "db", b, manual(vfs.Default))
		put(t, s, model, "key", 100)
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		sameMap(t, "the store", contents(t, s.DB()), model)
		mustNil(t, s.Close())
	}
	refusedFor(t, "Open", "db/bucket", func() error {
		_, err := Open(t.Context(), "db", b, evictingIn())
		return err
	})
	for _, dir := range []string{"db/bucket", "db/bucket/copies"} {
		refusedFor(t, "OpenReader", "db/bucket", func() error {
			_, err := OpenReader(t.Context(), b, &ReaderOptions{Dir: dir})
			return err
		})
	}
	r := openTestReader(t, b, ReaderOptions{Dir: "db-copies"})
	sameMap(t, "a reader", contents(t, r), model)
	sameMap(t, "a restore", restoredContents(t, b), model)
}

// TestEvict_BucketMovedIntoTheStore: somebody moves the bucket of a store that lets go of tables to where its copies are. Hydrate would
// sweep the tables away as tails that nobody needs, once all are in the folder. Back in its place, the bucket serves as before.
func TestEvict_BucketMovedIntoTheStore(t *testing.T) {
	t.Chdir(t.TempDir())
	b, err := NewDir(nil, "objects")
	mustNil(t, err)
	model, o := make(map[string]string), evictingIn()
	s := openStore(t, "db", b, o)
	grow(t, s, model, 5000)
	mustNil(t, s.Close())
	copies := filepath.Join("db", copiesDir)
	mustNil(t, os.RemoveAll(copies))
	mustNil(t, os.Rename("objects", copies))
	b, err = NewDir(nil, copies)
	mustNil(t, err)
	hydrate := func() error {
		_, err := Hydrate(context.Background(), b, "db", nil)
		return err
	}
	refusedFor(t, "Hydrate", copies, hydrate)
	o.LocalBytes = 0
	refusedFor(t, "Open", copies, func() error {
		_, err := Open(t.Context(), "db", b, o)
		return err
	})
	mustNil(t, os.Rename(copies, "objects"))
	b, err = NewDir(nil, "objects")
	mustNil(t, err)
	mustNil(t, hydrate())
	sameMap(t, "the store without the bucket", contentsOf(t, vfs.Default, "db"), model)
}
