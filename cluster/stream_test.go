package cluster

import (
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// putFile makes a file.
func putFile(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err == nil {
		_, err = io.WriteString(f, content)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	mustNil(t, err)
}

func TestStream_Bytes(t *testing.T) {
	t.Parallel()
	l := &fileList{streamVersion, 7, 2, []streamFile{{"CURRENT", 1}}}
	const want = `{"version":2,"index":7,"term":2,"files":[{"name":"CURRENT","size":1}]}`
	if got := string(l.encode()); got != want {
		t.Errorf("list is\n%s, want\n%s", got, want)
	}
	const notice = "7368616c65534e50" + "02000000" + "8e0cef1fb7a9cd52ba8b5d3d7f0ddc1aee9d1460e49a6d239dd898307de992c7"
	if got := hex.EncodeToString(l.notice()); got != notice || len(got) != 2*noticeSize {
		t.Errorf("notice is\n%s, want\n%s", got, notice)
	}
}

// someList is a list with several files.
func someList() *fileList {
	return &fileList{streamVersion, 1 << 40, 3, []streamFile{{"000001.sst", 5}, {"000002.flt", 0}, {"000003.wal", 1 << 40}, {"CURRENT", 7}}}
}

// TestStream_TooNew meets what a later version sends.
func TestStream_TooNew(t *testing.T) {
	t.Parallel()
	l := someList()
	l.Version++
	if _, err := decodeFileList(l.encode()); !errors.Is(err, shale.ErrFormatTooNew) {
		t.Error(err)
	}
	if n, err := new(snapshotSink).Write(append(l.notice(), 0)); n != 0 || !errors.Is(err, errStream) {
		t.Errorf("a notice that is too long: %d, %v", n, err)
	}
}

// TestStream_Names sends names that a store's file can't have.
func TestStream_Names(t *testing.T) {
	t.Parallel()
	send := func(size int64, names ...string) error {
		l := &fileList{Version: streamVersion}
		for _, name := range names {
			l.Files = append(l.Files, streamFile{name, size})
		}
		_, err := decodeFileList(l.encode())
		return err
	}
	mustNil(t, send(0, "000001.sst", "000002.sst"))
	for _, name := range []string{"", ".", "..", "../CURRENT", "a/CURRENT", "/CURRENT", `..\CURRENT`, "LOCK", "000001.tmp",
		"1.sst", "000001.SST", "000001.sst/", "000001.sst.part", "CURRENT\x00", "x", strings.Repeat("0", 61) + ".sst"} {
		if err := send(0, name); !errors.Is(err, errStream) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, names := range [][]string{{"000001.sst", "000001.sst"}, {"000002.sst", "000001.sst"}} {
		if err := send(0, names...); !errors.Is(err, errStream) {
			t.Errorf("names %q: %v", names, err)
		}
	}
	if err := send(-1, "000001.sst"); !errors.Is(err, errStream) {
		t.Errorf("a size of -1: %v", err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add(someList().encode())
	f.Add((&fileList{Version: streamVersion}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := decodeFileList(data)
		if err != nil {
			return
		}
		for _, f := range l.Files {
			if strings.ContainsAny(f.Name, `/\`) || f.Name == ".." {
				t.Fatalf("name %q", f.Name)
			}
		}
		again, err := decodeFileList(l.encode())
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%+v is sent again as %+v, %v", l, again, err)
		}
	})
}
