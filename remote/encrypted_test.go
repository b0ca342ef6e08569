package remote

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
)

// The local files of a Store are encrypted by its file system, and objects in a bucket are not, unless the
// bucket is a directory of such a file system. A restore into one encrypts.
func TestStore_Encrypted(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	disk, err := crypt.New(mem, crypt.Keys{{ID: 1, Secret: bytes.Repeat([]byte{1}, 32)}})
	mustNil(t, err)
	plain := NewMem()
	sealed, err := NewDir(disk, "bucket")
	mustNil(t, err)
	model := map[string]string{}
	for dir, b := range map[string]Bucket{"one": plain, "two": sealed} {
		o := manual(disk)
		o.Store.Compression = shale.NoCompression
		s := openStore(t, dir, b, o)
		put(t, s, model, "a", 2000)
		mustNil(t, s.Publish(t.Context()))
		put(t, s, model, "b", 100)
		mustNil(t, s.Ship(t.Context()))
		mustNil(t, s.Close())

		_, err := Restore(t.Context(), b, "restored "+dir, At{}, &RestoreOptions{FS: disk})
		mustNil(t, err)
		db, err := shale.Open("restored "+dir, &shale.Options{FS: disk, OnEvent: func(shale.Event) {}})
		mustNil(t, err)
		if n := len(contents(t, db)); n != 2100 {
			t.Errorf("%d keys are restored", n)
		}
		mustNil(t, db.Close())
	}
	if shown := inDir(t, mem, "."); shown != "" {
		t.Errorf("%s shows what is in the store", shown)
	}
	bucket := map[string][]byte{}
	for o, err := range plain.List(t.Context(), "", "") {
		mustNil(t, err)
		b := make([]byte, o.Size)
		if _, err := plain.ReadAt(t.Context(), o.Name, b, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		bucket[o.Name] = b
	}
	if !bytes.Contains(bytes.Join(slicesOf(bucket), nil), []byte("value of a0001")) {
		t.Error("the objects of another bucket are encrypted: OPERATIONS.md says that they are not")
	}

	r, err := OpenReader(t.Context(), sealed, &ReaderOptions{Dir: "copies", FS: disk})
	if err == nil {
		_ = r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "ReaderOptions.FS") {
		t.Errorf("a Reader with a cache in an encrypted directory: %v", err)
	}
}

func slicesOf(m map[string][]byte) (all [][]byte) {
	for b := range maps.Values(m) {
		all = append(all, b)
	}
	return all
}

// inDir returns the name of a file below a directory that shows values, or "".
func inDir(t *testing.T, fs vfs.FS, dir string) string {
	names, err := fs.List(dir)
	mustNil(t, err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := fs.Stat(path)
		mustNil(t, err)
		if info.IsDir {
			if shown := inDir(t, fs, path); shown != "" {
				return shown
			}
			continue
		}
		f, err := fs.Open(path)
		mustNil(t, err)
		b := make([]byte, info.Size)
		_, _ = f.ReadAt(b, 0) // a file of a store in memory
		mustNil(t, f.Close())
		if bytes.Contains(b, []byte("value of ")) {
			return path
		}
	}
	return ""
}
