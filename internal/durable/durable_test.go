package durable

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/shaledb/shale/vfs"
)

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A linkless file system fails to make links, and may have made them.
type linkless struct {
	vfs.FS
	makes bool
	err   error
}

func (l linkless) Link(from, to string) error {
	if l.makes {
		return errors.Join(l.FS.Link(from, to), l.err)
	}
	return l.err
}

// A file gets a second name, or a copy gets it, and the first one stays as it is: also if a link was made that was
// reported as failed. A copy is not tried where a link says that it is of no use.
func TestLinkOrCopy(t *testing.T) {
	lost := errors.New("the answer was lost")
	for _, test := range []struct {
		fs   linkless
		want error
	}{
		{linkless{makes: true}, nil}, {linkless{err: lost}, nil}, {linkless{makes: true, err: lost}, nil},
		{linkless{err: fs.ErrExist}, fs.ErrExist}, {linkless{err: fs.ErrNotExist}, fs.ErrNotExist},
	} {
		mem := vfs.NewMem()
		test.fs.FS = mem
		if err := Write(mem, "a", []byte("content")); err != nil {
			t.Fatal(err)
		}
		if err := LinkOrCopy(test.fs, "a", "b"); !errors.Is(err, test.want) {
			t.Fatalf("%+v: %v", test.fs, err)
		}
		if got := content(t, mem, "a"); got != "content" {
			t.Errorf("%+v: a has %q", test.fs, got)
		}
		if test.want == nil && content(t, mem, "b") != "content" {
			t.Errorf("%+v: b has another content", test.fs)
		}
	}
	if err := Copy(vfs.NewMem(), "a", "b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Copy of nothing: %v", err)
	}
}
