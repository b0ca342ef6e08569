package crypt

import (
	"bytes"
	"testing"

	"github.com/shaledb/shale/vfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// key returns a key of equal bytes.
func key(id uint32, b byte) Key { return Key{id, bytes.Repeat([]byte{b}, keySize)} }

func over(t testing.TB, base vfs.FS, keys ...Key) *FS {
	t.Helper()
	fs, err := New(base, keys)
	must(t, err)
	return fs
}

// raw returns what is below a file.
func raw(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		t.Fatal(n, err)
	}
	return b
}
