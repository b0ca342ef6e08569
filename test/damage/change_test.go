package damage

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A change is what damage does to the bytes of a file.
type change struct {
	what string
	to   func(data []byte) []byte
}

func flipped(at int, mask byte) change {
	return change{fmt.Sprintf("byte %d xor %#x", at, mask), func(data []byte) []byte {
		data[at] ^= mask
		return data
	}}
}

func zeroed(at, n int) change {
	return change{fmt.Sprintf("%d zeros at %d", n, at), func(data []byte) []byte {
		clear(data[min(at, len(data)):min(at+n, len(data))])
		return data
	}}
}

func cut(size int) change {
	return change{fmt.Sprintf("cut to %d", size), func(data []byte) []byte { return data[:size] }}
}

func longer(n int, fill byte) change {
	return change{fmt.Sprintf("longer by %d times %#x", n, fill), func(data []byte) []byte {
		return append(data, strings.Repeat(string([]byte{fill}), n)...)
	}}
}

// misdirected swaps two sectors.
func misdirected(i, j int) change {
	return change{fmt.Sprintf("sectors %d and %d swapped", i, j), func(data []byte) []byte {
		x, y := data[i*512:(i+1)*512], data[j*512:(j+1)*512]
		for k := range x {
			x[k], y[k] = y[k], x[k]
		}
		return data
	}}
}

// replacedBy puts a file of another store in place of one.
func replacedBy(from string, files map[string]string) change {
	return change{"replaced by " + from + " of another store", func([]byte) []byte { return []byte(files[from]) }}
}

// writeFile makes data the bytes of a file of the store.
func writeFile(mem *vfs.Mem, file, data string) error {
	f, err := mem.Create(filepath.Join(harness.Dir, file))
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(data)); err != nil {
		return err
	}
	return f.Close()
}

// removed removes a file of the store.
func removed(file string) func(mem *vfs.Mem) error {
	return func(mem *vfs.Mem) error { return mem.Remove(filepath.Join(harness.Dir, file)) }
}

// swapped gives two files of the store each other's bytes, as a copy by hand might.
func swapped(files map[string]string, a, b string) func(mem *vfs.Mem) error {
	return func(mem *vfs.Mem) error {
		if err := writeFile(mem, a, files[b]); err != nil {
			return err
		}
		return writeFile(mem, b, files[a])
	}
}

// storeFiles returns all files of a store but the lock.
func storeFiles(t testing.TB, mem *vfs.Mem) map[string]string {
	t.Helper()
	files, err := harness.Files(mem, harness.Dir)
	if err != nil {
		t.Fatal(err)
	}
	delete(files, base.LockName)
	return files
}

// storeLimit is for the life of a small store in memory, and for looking at it and repairing it.
var storeLimit = fuzzing.Limit{Bytes: 256 << 20}
