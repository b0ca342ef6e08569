package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/fuzzing"
)

// A table takes about three times the memory of its entry, and a damaged one has an error
// too. Read keeps the file, after it had half of it, and half of that.
var (
	openLimit = fuzzing.Limit{Bytes: 4 << 10, PerByte: 10}
	readLimit = fuzzing.Limit{Bytes: firstRead + 16<<10, PerByte: 13}
)

// reseal gives header, directory and the entries of filters checksums that fit,
// as far as it can find them.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerLen {
		return b
	}
	le := binary.LittleEndian
	seal := func() {
		le.PutUint32(b[12:], checksum(b[:12]))
		le.PutUint32(b[60:], checksum(b[:60]))
	}
	seal()
	h, err := decodeHeader(b)
	if err != nil || headerLen+uint64(h.dirLen) > uint64(len(b)) {
		return b
	}
	all := b[headerLen : headerLen+h.dirLen]
	dir := all
	for range h.runs {
		_, n, rest, err := decodeRun(dir)
		for range n {
			var e tableEntry
			head := rest
			if e, rest, err = decodeTable(rest); err != nil {
				break
			}
			if e.length > 0 && e.offset < uint64(len(b)) && e.length <= uint64(len(b))-e.offset {
				le.PutUint32(head[24:], filterSum(b[e.offset:e.offset+e.length]))
			}
		}
		if err != nil {
			break
		}
		dir = rest
	}
	le.PutUint32(b[56:], checksum(all))
	seal()
	return b
}

// FuzzOpen checks that no bytes cause a panic or take much memory. A bundle that is
// accepted answers questions, and is written as it was read.
func FuzzOpen(f *testing.F) {
	files, err := filepath.Glob("testdata/*.bundle")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden bundles: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte("key-049"), false)
		f.Add(b, []byte(""), true)
	}
	f.Fuzz(func(t *testing.T, data, key []byte, fix bool) {
		if fix {
			data = reseal(data)
		}
		use(t, data, key)
	})
}

// use opens data in both ways and asks it everything.
func use(t *testing.T, data, key []byte) {
	kept := bytes.Clone(data)
	var b, r *Bundle
	var err, readErr error
	maybe := false
	openLimit.Check(t, len(data), func() {
		if b, err = Open(data); err == nil {
			maybe = b.MayContain(key)
			b.PredictedFPR()
		}
	})
	readLimit.Check(t, len(data), func() { r, readErr = Read(bytes.NewReader(data), int64(len(data))) })
	if err != nil {
		if b != nil || errors.Is(err, ErrDamaged) == errors.Is(err, ErrFormatTooNew) {
			t.Fatalf("Open = %v, %v", b, err)
		}
		if readErr == nil {
			t.Fatalf("Open gives %v, Read opens it", err)
		}
		return
	}
	if readErr != nil {
		t.Fatalf("Open opens what Read refuses: %v", readErr)
	}
	if r.MayContain(key) != maybe || len(r.Damaged()) != len(b.Damaged()) || (b.Err() == nil) != (len(b.Damaged()) == 0) {
		t.Fatalf("Open: %v, %v; Read: %v, %v", maybe, b.Damaged(), r.MayContain(key), r.Damaged())
	}
	if p := b.PredictedFPR(); !(p >= 0 && p <= 1) {
		t.Fatalf("PredictedFPR() = %v", p)
	}
	for i := range b.runs {
		for j := range b.runs[i].tables {
			table := &b.runs[i].tables[j]
			for _, k := range [][]byte{table.smallest, table.largest} {
				if b.runs[i].find(k) != table {
					t.Fatalf("run %d does not find table %d by %q", i, j, k)
				}
				if table.filter == nil && !b.MayContain(k) {
					t.Fatalf("MayContain(%q) = false, the bound of a table without a filter", k)
				}
			}
		}
	}
	if b.Err() == nil {
		writeAgain(t, b, kept)
	}
	if !bytes.Equal(data, kept) {
		t.Fatal("asking changed the bytes")
	}
}

// writeAgain writes b again. The result has the same bytes, except for padding,
// which nothing reads.
func writeAgain(t *testing.T, b *Bundle, data []byte) {
	spec := Spec{StoreID: b.StoreID(), Seq: b.Seq(), Created: time.Unix(b.head.created, 0)}
	dir := data[headerLen : headerLen+b.head.dirLen]
	var filters [][][]byte
	for _, r := range b.runs {
		run := Run{Level: r.level}
		var of [][]byte
		_, n, rest, err := decodeRun(dir)
		for range n {
			var e tableEntry
			e, rest, err = decodeTable(rest)
			run.Tables = append(run.Tables, Table{Smallest: e.smallest, Largest: e.largest, Keys: e.keys})
			of = append(of, data[e.offset:e.offset+e.length])
		}
		if err != nil {
			t.Fatal(err)
		}
		dir = rest
		spec.Runs, filters = append(spec.Runs, run), append(filters, of)
	}
	var w bytes.Buffer
	if _, err := Write(&w, &spec, func(run, table int) ([]byte, error) { return filters[run][table], nil }); err != nil {
		t.Fatalf("what Open accepts, Write refuses: %v", err)
	}
	again, used := w.Bytes(), usedBytes(t, data)
	for i := range data {
		if len(again) != len(data) || used[i] && again[i] != data[i] {
			t.Fatalf("byte %d of %d differs when written again in %d", i, len(data), len(again))
		}
	}
}
