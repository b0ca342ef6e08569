package command

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// An export next to a program that writes has all keys that the program wrote, even those that are
// only in its memtable.
func TestFiltersExport_BesideAWriter(t *testing.T) {
	dir := t.TempDir()
	db, err := shale.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.Put([]byte("flushed"), nil), db.Flush(t.Context()), db.Put([]byte("k"), nil)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "filters")
	if out, notes, st := call("", "-C", filepath.Join(dir, "db"), "filters", "export", file); st != Found || !strings.Contains(out, "2 keys") {
		t.Fatalf("export: status %d, %s%s", st, out, notes)
	}
	if out, notes, st := call("", "has", "--bundle", file, "k", "flushed"); st != Found || out != "k\tmaybe\nflushed\tmaybe\n" {
		t.Errorf("has: status %d, %s%s", st, out, notes)
	}
	_, notes, st := call("", "-C", filepath.Join(dir, "db"), "filters", "export", filepath.Join(dir, "none", "filters"))
	if st != Failed || !strings.Contains(notes, "none") {
		t.Errorf("export into a folder that is not there: status %d, %s", st, notes)
	}
}
