package cluster

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// put makes a file.
func putFile(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err == nil {
		_, err = io.WriteString(f, content)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A bufferSink keeps a file of a stream.
type bufferSink struct {
	bytes.Buffer
	done func(content string)
}

func (b *bufferSink) Close() error { b.done(b.String()); return nil }
func (b *bufferSink) Abort()       {}

// received decodes a stream into a text with a line for each file.
func received(data []byte) (string, error) {
	var text strings.Builder
	err := decodeStream(bytes.NewReader(data), func(f streamFile) (streamSink, error) {
		return &bufferSink{done: func(content string) { fmt.Fprintf(&text, "%s=%s\n", f.name, content) }}, nil
	})
	return text.String(), err
}

// streamOf returns the stream of a directory with these files.
func streamOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("store"); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		putFile(t, fsys, filepath.Join("store", name), content)
	}
	list, err := streamFiles(fsys, "store")
	if err != nil {
		t.Fatal(err)
	}
	r := newStreamReader(fsys, "store", list)
	data, err := io.ReadAll(iotest.OneByteReader(r))
	if err != nil || int64(len(data)) != streamSize(list) {
		t.Fatalf("stream of %d bytes, %v; want %d", len(data), err, streamSize(list))
	}
	if err := r.Close(); err != nil || fsys.OpenFiles() != 0 {
		t.Fatalf("%d files are open: %v", fsys.OpenFiles(), err)
	}
	return data
}

func TestStream_Bytes(t *testing.T) {
	got := hex.EncodeToString(streamOf(t, map[string]string{"CURRENT": "x", "LOCK": "1", "000001.tmp": "t", "notes": "n"}))
	const want = "7368616c65534e50" + "01000000" + "01000000" + "0100000000000000" + "8cdb2ff5" +
		"0700" + "0100000000000000" + "43555252454e54" + "9cce3322" + "78" + "935f3ca9"
	if got != want {
		t.Errorf("stream is\n%s, want\n%s", got, want)
	}
}

func TestStream_RoundTrip(t *testing.T) {
	data := streamOf(t, map[string]string{
		"CURRENT": "c", "MANIFEST-000007": "", "000001.sst": strings.Repeat("table ", 100), "000003.wal": "w", "000002.flt": "f"})
	got, err := received(data)
	if want := "000001.sst=" + strings.Repeat("table ", 100) + "\n000002.flt=f\n000003.wal=w\nCURRENT=c\nMANIFEST-000007=\n"; err != nil || got != want {
		t.Errorf("received %q, %v", got, err)
	}
	if got, err := received(streamOf(t, nil)); err != nil || got != "" {
		t.Errorf("empty stream: %q, %v", got, err)
	}
}

// TestStream_Damage flips every bit, cuts at every byte and adds a byte.
func TestStream_Damage(t *testing.T) {
	data := streamOf(t, map[string]string{"000001.sst": "table", "CURRENT": "current"})
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			_, err := received(bad)
			if !errors.Is(err, errStream) && !(8 <= i && i < 12 && errors.Is(err, shale.ErrFormatTooNew)) {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
		}
		if _, err := received(data[:i]); !errors.Is(err, errStream) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if _, err := received(append(data, 0)); !errors.Is(err, errStream) {
		t.Errorf("with a byte more: %v", err)
	}
}

// TestStream_Names sends names that a store's file can't have, with right checksums.
func TestStream_Names(t *testing.T) {
	send := func(names ...string) error {
		var files []streamFile
		for _, name := range names {
			files = append(files, streamFile{name, 0})
		}
		data := appendStreamHeader(nil, files)
		for _, f := range files {
			data = append(appendStreamFile(data, f), 0, 0, 0, 0)
		}
		_, err := received(data)
		return err
	}
	if err := send("000001.sst", "000002.sst"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../CURRENT", "a/CURRENT", "/CURRENT", `..\CURRENT`, "LOCK", "000001.tmp",
		"1.sst", "000001.SST", "000001.sst/", "CURRENT\x00", "x", strings.Repeat("0", 61) + ".sst"} {
		if err := send(name); !errors.Is(err, errStream) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, names := range [][]string{{"000001.sst", "000001.sst"}, {"000002.sst", "000001.sst"}} {
		if err := send(names...); !errors.Is(err, errStream) {
			t.Errorf("names %q: %v", names, err)
		}
	}
}

// TestStream_FileShrinks sends a file that has lost its end since the stream began.
func TestStream_FileShrinks(t *testing.T) {
	fsys := vfs.NewMem()
	putFile(t, fsys, "000001.sst", "table")
	_, err := io.ReadAll(newStreamReader(fsys, "", []streamFile{{"000001.sst", 6}}))
	if damage := (*shale.CorruptionError)(nil); !errors.As(err, &damage) {
		t.Errorf("read of a short file: %v", err)
	}
}

// A lateSink fails after it has written, as a disk may.
type lateSink struct{ bufferSink }

func (*lateSink) Write(p []byte) (int, error) { return len(p), syscall.EIO }

// TestStream_WriteError gets the error of the disk, also if all bytes were written.
func TestStream_WriteError(t *testing.T) {
	data := streamOf(t, map[string]string{"000001.sst": "table"})
	err := decodeStream(bytes.NewReader(data), func(streamFile) (streamSink, error) { return new(lateSink), nil })
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("decodeStream = %v, want EIO", err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add(streamOf(f, map[string]string{"000001.sst": "table", "CURRENT": "current"}))
	f.Add(streamOf(f, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		files := map[string]string{}
		err := decodeStream(bytes.NewReader(data), func(f streamFile) (streamSink, error) {
			if strings.ContainsAny(f.name, `/\`) || f.name == ".." {
				t.Fatalf("name %q", f.name)
			}
			return &bufferSink{done: func(content string) { files[f.name] = content }}, nil
		})
		if err == nil && !bytes.Equal(streamOf(t, files), data) {
			t.Errorf("%x is sent again as %x", data, streamOf(t, files))
		}
	})
}
