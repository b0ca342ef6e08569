package form

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

// frameOf returns a frame that promises n bytes, and body.
func frameOf(n uint64, body string) []byte {
	b := make([]byte, FrameLen, FrameLen+len(body))
	putFrame(b, n)
	return append(b, body...)
}

func resealFrame(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[:20], Castagnoli))
	return b
}

// The frame of the document: magic, version, length and checksum.
func TestFrame_AsDocumented(t *testing.T) {
	want := "shaleFRM" + "\x01\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00"
	got := frameOf(3, "abc")
	sum := binary.LittleEndian.Uint32(got[20:])
	text, err := os.ReadFile("../../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"73 68 61 6c 65 46 52 4d ", "38 00 00 00 00 00 00 00 ", fmt.Sprintf("% x ", frameOf(56, "")[20:])} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("the document has no line %q", line)
		}
	}
	if string(got[:20]) != want || sum != crc32.Checksum([]byte(want), crc32.MakeTable(crc32.Castagnoli)) || string(got[24:]) != "abc" {
		t.Errorf("%x", got)
	}
}

// A frame that is damaged, of a later version or of something else is refused before anything
// behind it is read.
func TestReadFrom_Refuses(t *testing.T) {
	version := frameOf(3, "abc")
	version[8] = 2
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"a part of a frame", frameOf(3, "")[:23], io.ErrUnexpectedEOF},
		{"a frame alone", frameOf(3, ""), io.ErrUnexpectedEOF},
		{"a part of the filter", frameOf(3, "ab"), io.ErrUnexpectedEOF},
		{"other bytes", bytes.Repeat([]byte("other"), 20), ErrUnknown},
		{"a later version", resealFrame(version), ErrUnknown},
		{"more than memory", frameOf(math.MaxUint64, "abc"), ErrDamaged},
		{"most that an int says", frameOf(math.MaxInt, "abc"), io.ErrUnexpectedEOF},
	} {
		called := false
		n, err := ReadFrom(bytes.NewReader(c.b), func([]byte) error { called = true; return nil })
		if !errors.Is(err, c.want) || called || n > int64(len(c.b)) || errors.Is(c.want, ErrUnknown) && n != FrameLen {
			t.Errorf("%s: ReadFrom = %d, %v, want %v", c.name, n, err, c.want)
		}
	}
	good := frameOf(3, "abc")
	for i := range FrameLen * 8 {
		b := bytes.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		if n, err := ReadFrom(bytes.NewReader(b), func([]byte) error { return nil }); err == nil || n != FrameLen {
			t.Errorf("bit %d: %d, %v", i, n, err)
		}
	}
}

// A length that the bytes do not have costs no memory for it.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	b := frameOf(1<<40, "abc")
	if n := testing.Benchmark(func(t *testing.B) {
		t.ReportAllocs()
		for t.Loop() {
			if _, err := ReadFrom(bytes.NewReader(b), func([]byte) error { return nil }); err == nil {
				t.Fatal("no error")
			}
		}
	}).AllocedBytesPerOp(); n > 4096 {
		t.Errorf("%d bytes were allocated for three", n)
	}
}
