package shale

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

func TestOpenErrors(t *testing.T) {
	fsys := vfs.NewMem()
	db := openTest(t, &Options{FS: fsys})
	if _, err := Open("db", &Options{FS: fsys}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		opts Options
		want error
	}{
		{"db", Options{ErrorIfExists: true}, fs.ErrExist},
		{"none", Options{MustExist: true}, fs.ErrNotExist},
		{"none", Options{ReadOnly: true}, fs.ErrNotExist},
	} {
		c.opts.FS = fsys
		if _, err := Open(c.dir, &c.opts); !errors.Is(err, c.want) {
			t.Errorf("Open(%q, %+v): %v, want %v", c.dir, c.opts, err, c.want)
		}
	}
	for _, opts := range []Options{{MemtableSize: 1}, {BlockSize: 1}, {TableSize: 1}, {FilterBits: 1000}, {Durability: 7}, {MaxOpenFiles: 1}} {
		opts.FS = fsys
		if _, err := Open("db", &opts); err == nil || !strings.Contains(err.Error(), "option") {
			t.Errorf("Open with %+v: %v, want an error that names the option", opts, err)
		}
	}
	if n := fsys.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after failed Opens", n)
	}
}
