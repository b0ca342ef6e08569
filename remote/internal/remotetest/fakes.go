// Package remotetest has buckets that fail, for tests of the packages of remote.
package remotetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// ActualSum returns the checksum of a body, whatever was stated.
func ActualSum(body io.ReaderAt, size int64) uint32 {
	data := make([]byte, size)
	_, _ = body.ReadAt(data, 0) // a short body gives another checksum, and that is all that matters here
	return bucket.Checksum(data)
}

// A Refusal is an error that no repetition cures, as buckets mark them.
// A Retry returns it at once, so tests need not wait for its patience.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return r.Err.Error() }

// Permanent is the method by which a Retry knows such an error.
func (Refusal) Permanent() bool { return true }

// errRefused is the answer to calls that a Fake refuses.
var errRefused = Refusal{errors.New("403: refused")}

// NamesOf returns the names of all objects of a folder.
func NamesOf(t *testing.T, b bucket.Bucket, folder string) []string {
	t.Helper()
	var names []string
	for info, err := range b.List(context.Background(), folder, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// Flipped returns a copy of b with one bit changed.
func Flipped(b []byte, bit int) []byte {
	c := slices.Clone(b)
	c[bit/8] ^= 1 << (bit % 8)
	return c
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		t.Fatal(err)
	}
	return b
}

// ChangeFile changes the content of a file.
func ChangeFile(t testing.TB, fsys vfs.FS, name string, change func(b []byte) []byte) {
	t.Helper()
	b := change(ReadFile(t, fsys, name))
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
