package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

const testStore = 0x0102030405060708

// testPayload returns n bytes that differ from record to record and contain no fragments.
func testPayload(i, n int) string {
	return string(bytes.Repeat(fmt.Appendf(nil, "%04d.", i), n/5+1)[:n])
}

// testPayloads returns n payloads of some 40 bytes.
func testPayloads(n int) []string {
	var all []string
	for i := range n {
		all = append(all, testPayload(i, 30+i%7*5))
	}
	return all
}

func mustCreate(t testing.TB, h Header, o Options) *Writer {
	t.Helper()
	w, err := Create(h, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustAppend(t testing.TB, w *Writer, payload string, seq base.Seq) int64 {
	t.Helper()
	end, err := w.Append([]byte(payload), seq)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func mustSync(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// readAll returns the file of log num.
func readAll(t testing.TB, fs vfs.FS, num base.FileNum) []byte {
	t.Helper()
	f, err := fs.Open(base.LogName(num))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

// readLog returns the payloads of log num.
func readLog(fs vfs.FS, num base.FileNum, o ReadOptions) (payloads []string, res Result, err error) {
	res, err = Read(fs, "", num, testStore, o, func(p []byte) error {
		payloads = append(payloads, string(p))
		return nil
	})
	return payloads, res, err
}

// readBytes reads data as log 7.
func readBytes(data []byte, o ReadOptions) (payloads []string, res Result, err error) {
	return readLog(fileSystem(data), 7, o)
}

// fileSystem returns a file system with data as log 7.
func fileSystem(data []byte) vfs.FS {
	fs := vfs.NewMem()
	f, err := fs.Create(base.LogName(7))
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
	return fs
}

func checkPayloads(t testing.TB, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("record %d = %.40q (%d bytes), want %.40q (%d bytes)", i, got[i], len(got[i]), want[i], len(want[i]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
}

// checkCorrupt fails unless err is a CorruptionError for log 7 at off; -1: at any offset.
func checkCorrupt(t testing.TB, err error, off int64) {
	t.Helper()
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		t.Errorf("error = %v, want a CorruptionError", err)
		return
	}
	if c.File != base.LogName(7) || c.Part == "" || off >= 0 && c.Offset != off {
		t.Errorf("error = %v, want one in %s at offset %d", err, base.LogName(7), off)
	}
}

// isPrefix reports whether got is the beginning of want.
func isPrefix(got, want []string) bool {
	if len(got) > len(want) {
		return false
	}
	for i := range got {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}
