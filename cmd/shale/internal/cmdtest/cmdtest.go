// Package cmdtest has helpers for tests of the command.
package cmdtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shaledb/shale"
)

// NewStore makes a store of n keys: k0, k1 and so on.
//
// The entries are in the log, as after a program that has written and ended.
func NewStore(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b shale.Batch
	for i := range n {
		if err := b.Put(fmt.Appendf(nil, "k%d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Flip changes the byte of a file at an offset.
//
// Two calls with the same offset leave the file as it was.
func Flip(t *testing.T, name string, offset int64) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[offset] ^= 0x55
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// BrokenWriter is like a pipe whose reader has closed it.
type BrokenWriter struct{}

// Write implements io.Writer.
func (BrokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// These texts differ from run to run: times, and memory, which depends on the size of a
// machine's words.
var (
	varying = regexp.MustCompile(`\d+(\.\d+)? ?(ns|µs|ms|s\b)(, [0-9,]+ lines/s)?`)
	memory  = regexp.MustCompile(`(?m)^memory: .*$`)
)

// Masked returns the output of a command without the texts that differ from run to run.
//
// The rest of an output is the same in each run, so tests compare it as a whole.
func Masked(text string) string {
	return memory.ReplaceAllString(varying.ReplaceAllString(text, "<time>"), "memory: <sizes>")
}

// Contents returns the entries of the store in dir.
//
// It opens the store as another program would, after the command has ended.
func Contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // only read
	all := make(map[string]string)
	for e, err := range db.Scan(shale.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}
