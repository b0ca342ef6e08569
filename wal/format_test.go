package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with testdata/name, or writes that file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: bytes differ from those of the format (%d bytes, want %d)", name, len(got), len(want))
	}
}

// exampleBytes is the example of docs/FORMAT.md, without the header's zeros.
var exampleBytes = [2]string{
	"shaleWAL" + "\x01\x00\x00\x00" + "\x27\x3e\x03\x4c" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x07\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00" + "\xcc\x10\x00\x00\x00\x00\x00\x00" +
		"\x29\x00\x00\x00\x00\x00\x00\x00" + "\x0d\xbd\xb1\xdc",
	"\xfb\x11\xac\xac" + "\x08\x00" + "\x29\x12" + "\x80\x20" + "\x2a" + "hello" +
		"\x53\x05\x36\x8b" + "\x0b\x00" + "\x2d\x12" + "\x90\x20" + "\x2a" +
		"\x01\x00\x00\x00\x00\x00\x00\x00",
}

func exampleHeader() Header {
	return Header{Num: 7, StoreID: testStore, Prev: 5, PrevLen: 4300, PrevSeq: 41}
}

func TestFormat_Example(t *testing.T) {
	fs := vfs.NewMem()
	w := mustCreate(t, exampleHeader(), Options{FS: fs})
	mustAppend(t, w, "hello", 42)
	if _, err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	got := readAll(t, fs, 7)
	want := append([]byte(exampleBytes[0]), make([]byte, headerSize-headerFirst)...)
	want = append(want, exampleBytes[1]...)
	if !bytes.Equal(got, want) {
		t.Errorf("log is\n%x, want\n%x", got, want)
	}
	golden(t, "example.wal", got)
}

// sessionBytes are behind the used bytes of the example's header, if the log is of a session.
const sessionBytes = "\xef\xcd\xab\x89\x67\x45\x23\x01" + "\xf4\xdf\xf8\xc2"

// A header with a session differs from one without in 12 bytes, which programs without sessions do not
// read. The golden file of before, without them, is still read.
func TestFormat_Session(t *testing.T) {
	old := mustReadFile(t, "example.wal")
	h := exampleHeader()
	h.Session = 0x0123456789abcdef
	header := appendHeader(nil, h, 0)
	if want := exampleBytes[0] + sessionBytes + string(make([]byte, headerSize-headerUsed)); string(header) != want {
		t.Errorf("header is\n%x, want\n%x", header[:headerUsed], want[:headerUsed])
	}
	data := append(header, old[headerSize:]...)
	golden(t, "session.wal", data)
	for session, data := range map[uint64][]byte{h.Session: data, 0: old} {
		got, _, err := decodeHeader(data)
		if err != nil || got.Session != session {
			t.Errorf("decodeHeader = %+v, %v; want session %x", got, err, session)
		}
		if _, res, err := readBytes(data, ReadOptions{Known: -1, Session: session}); err != nil || res.Session != session || res.Records != 1 {
			t.Errorf("Read = %+v, %v; want one record of session %x", res, err, session)
		}
		var damage *base.CorruptionError
		_, res, err := readBytes(data, ReadOptions{Known: -1, Session: 99})
		if !errors.As(err, &damage) || errors.Is(err, ErrNeverUsed) || res.Records > 0 {
			t.Errorf("Read of a log of session %x as one of 99: %+v, %v; want damage and no record", session, res, err)
		}
		for at := headerFirst; at < headerUsed; at++ {
			data[at] ^= 4
			if _, _, err := readBytes(data, ReadOptions{Known: -1}); !errors.As(err, &damage) || errors.Is(err, ErrNeverUsed) {
				t.Errorf("byte %d of session %x is wrong: %v, want damage", at, session, err)
			}
			data[at] ^= 4
		}
	}
	// A crash may have torn the header of a log that was being created.
	if _, _, err := readBytes(appendHeader(nil, exampleHeader(), 0), ReadOptions{Known: -1, Session: h.Session}); !errors.Is(err, ErrNeverUsed) {
		t.Errorf("Read of an empty log without a session: %v, want ErrNeverUsed", err)
	}
}

// TestFormat_Spanning writes each kind of fragment, padding, and blocks that are full to the
// last byte. It compares the files by their checksums.
func TestFormat_Spanning(t *testing.T) {
	for _, tt := range []struct {
		seal bool
		want uint32
	}{{false, 0x290e871c}, {true, 0x3cf07ae1}} {
		fs := vfs.NewMem()
		w := mustCreate(t, exampleHeader(), Options{FS: fs})
		for i, p := range spanningPayloads() {
			mustAppend(t, w, p, base.Seq(42+i))
		}
		if tt.seal {
			if _, err := w.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, w)
		if got := crc32.Checksum(readAll(t, fs, 7), castagnoli); got != tt.want {
			t.Errorf("sealed %v: checksum of the file is %#08x, want %#08x", tt.seal, got, tt.want)
		}
		got, res, err := readLog(fs, 7, ReadOptions{Known: -1})
		if err != nil {
			t.Fatal(err)
		}
		checkPayloads(t, got, spanningPayloads())
		if res.Sealed != tt.seal || res.Torn {
			t.Errorf("Read = %+v, want Sealed %v and not Torn", res, tt.seal)
		}
	}
}

// spanningPayloads fill blocks to all edges: a record that ends its block, one
// that leaves less than a record's header, one that begins with as little of it as
// may be, and some of several blocks.
func spanningPayloads() []string {
	const (
		record = 2 + 1 // a record without its payload: synced is 4096
		most   = blockSize - fragmentSize - record
	)
	sizes := []int{
		most, most - minRoom, minRoom - fragmentSize - record - 1, most - minRoom + 1, 0, 1, most + 1,
		3*blockSize + 17, 0, most - 100, 2 * (blockSize - fragmentSize), blockSize,
	}
	var all []string
	for i, n := range sizes {
		all = append(all, testPayload(i, n))
	}
	return all
}

func TestRead_GoldenFiles(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "example.wal"))
	if err != nil {
		t.Fatal(err)
	}
	got, res, err := readBytes(data, ReadOptions{Known: -1})
	if err != nil {
		t.Fatal(err)
	}
	checkPayloads(t, got, []string{"hello"})
	want := Result{Records: 1, LastSeq: 42, Length: int64(len(data)), Sealed: true, last: res.last}
	if res != want {
		t.Errorf("Read = %+v, want %+v", res, want)
	}
}

// TestRead_NewerVersion checks that a file of the next version is refused, and is taken
// neither for a damaged log nor for an empty one, whatever follows its version.
func TestRead_NewerVersion(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "example.wal"))
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(data[8:], version+1)
	binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], castagnoli))
	golden(t, "version2.wal", data)
	clear(data[16:100])
	for _, data := range [][]byte{data, mustReadFile(t, "version2.wal")} {
		_, _, err = readBytes(data, ReadOptions{Known: -1})
		if !errors.Is(err, base.ErrFormatTooNew) || errors.Is(err, ErrNeverUsed) {
			t.Errorf("Read = %v, want ErrFormatTooNew", err)
		}
	}
}

func mustReadFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
