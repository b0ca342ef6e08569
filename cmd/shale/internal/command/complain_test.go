package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
)

// A command reports each damage once, with advice once.
func TestDamageToldOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "-e", "put k v", "-e", "flush"); st != Found {
		t.Fatal(notes)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	cmdtest.Flip(t, tables[0], 3)
	for _, args := range [][]string{
		{"get", "k"}, {"scan"}, {"export", filepath.Join(dir, "out")}, {"explain", "k"}, {"filters", "rebuild", "--hash", "xxh3"}, {"-e", "get k"},
	} {
		_, notes, st := call("", append([]string{"-C", dir}, args...)...)
		if st != Failed || strings.Count(notes, filepath.Base(tables[0])) != 1 || strings.Count(notes, "Keep a copy") != 1 ||
			strings.Contains(notes, "background") {
			t.Errorf("%v: status %d, %s", args, st, notes)
		}
	}
}

// Every command that opens a file as a store says that it is a file.
func TestFileIsNoStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.tsv")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"get", "k"}, {"put", "k", "v"}, {"levels"}, {"space"}, {"check"}, {"repair", "into"}, {"serve"}, {"filters", "rebuild"},
		{"filters", "export", "out"},
	} {
		if _, notes, st := call("", append([]string{"-C", file}, args...)...); st != Failed || !strings.HasPrefix(notes, "shale: "+file+" is a file, not a store\n") {
			t.Errorf("%v: status %d, %s", args, st, notes)
		}
	}
	if _, notes, st := call("", "-C", filepath.Join(file, "sub"), "put", "k", "v"); st != Failed || !strings.Contains(notes, "not a directory") {
		t.Errorf("put into a folder of a file: status %d, %s", st, notes)
	}
}

// If the store is open elsewhere, every command that writes names the process.
func TestStoreInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := fmt.Sprintf("shale: process %d has %s open for writing; try again when it ends\n", os.Getpid(), dir)
	if _, notes, st := call("", "-C", dir, "checkpoint", dir+"2"); st != Failed || !strings.Contains(notes, fmt.Sprintf("process %d has %s", os.Getpid(), dir)) ||
		!strings.Contains(notes, "export") {
		t.Errorf("checkpoint: status %d, %s", st, notes)
	}
	for _, args := range [][]string{{"put", "k", "v"}, {"del", "k"}, {"flush"}, {"filters", "rebuild"}, {"repair", dir + "2"}} {
		if _, notes, st := call("", append([]string{"-C", dir}, args...)...); st != Failed || !strings.HasPrefix(notes, want) {
			t.Errorf("%v: status %d, %s", args, st, notes)
		}
	}
}

// A full disk and a lack of descriptors are named as the cause, whatever the store was doing.
// errors.Is still finds the cause.
func TestPlainly(t *testing.T) {
	full := fmt.Errorf("shale: store is read-only: begin log: wal: create 000012.wal: %w", syscall.ENOSPC)
	err := plainly(fmt.Errorf("file: %w", full))
	for _, tt := range []struct {
		err   error
		want  string
		cause error
	}{
		{full, "the disk is full; remove other files from it or enlarge it, and run this again", syscall.ENOSPC},
		{
			fmt.Errorf("manifest: finish: %w", &fs.PathError{Op: "write", Path: filepath.FromSlash("a/n.db/000001.tmp"), Err: syscall.ENOSPC}),
			"the disk with " + filepath.FromSlash("a/n.db") + " is full; remove other files from it or enlarge it, and run this again", syscall.ENOSPC,
		},
		{
			errors.Join(fmt.Errorf("open table 1: %w", syscall.EMFILE), fmt.Errorf("open table 2: %w", syscall.EMFILE)),
			"too many open files; raise the limit with ulimit -n, and run this again", syscall.EMFILE,
		},
	} {
		for _, got := range []error{plainly(tt.err), openError(t.TempDir(), tt.err)} {
			if got.Error() != tt.want || !errors.Is(got, tt.cause) {
				t.Errorf("%v: %v", tt.err, got)
			}
		}
	}
	if again := fmt.Errorf("%w; the last lines printed may come again", err); plainly(again) != again {
		t.Errorf("%v", plainly(again))
	}
	if other := errors.New("other"); plainly(other) != other || plainly(nil) != nil {
		t.Error("another error has changed")
	}
}
