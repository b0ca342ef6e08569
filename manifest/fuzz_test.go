package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/vfs"
)

var (
	// A removal of four bytes becomes 16, in a slice that grows. A range delete of seven bytes becomes a fragment, in such a
	// slice too, and two bounds.
	editLimit = fuzzing.Limit{Bytes: 2 << 10, PerByte: 64}
	// Two buffers to read with, and what becomes of an edit: tables are sorted
	// into maps by level and run.
	loadLimit = fuzzing.Limit{Bytes: 64 << 10, PerByte: 64}
	lineLimit = fuzzing.Limit{Bytes: 2 << 10, PerByte: 32}
)

// FuzzManifest loads and salvages any bytes as a manifest, also with checksums that were made
// to fit. What Load returns is the same after a snapshot of it was written and loaded.
func FuzzManifest(f *testing.F) {
	m := newMem(f)
	good, offsets := lifeFile(f, m, true)
	f.Add(good, uint16(len(good)), false)
	f.Add(good[:len(good)-5], uint16(offsets[1]), false)
	f.Add(good, uint16(offsets[2]-1), false)
	f.Add(good[:offsets[2]], uint16(headerSize), true)
	f.Add(unhex(f, workedExample), uint16(headerSize), false)
	f.Fuzz(func(t *testing.T, b []byte, durable uint16, fix bool) {
		if fix {
			b = fixSums(slices.Clone(b))
		}
		m := newMem(t)
		putFile(t, m, "MANIFEST-000001", b)
		_, err := writeCurrent(m, dir, current{manifest: 1, durable: max(int64(durable), headerSize)})
		mustNil(t, err)
		loadLimit.Check(t, len(b), func() { fuzzSalvage(t, m) })
		var s *State
		loadLimit.Check(t, len(b), func() { s, err = Load(m, dir) })
		if err != nil {
			mustBeDamage(t, err)
			return
		}
		l, err := Create(m, dir, s.NextFileNum, s)
		if s.NextFileNum+1 == 0 {
			return // no file numbers are left
		}
		mustNil(t, err)
		mustNil(t, l.Close())
		again, err := Load(m, dir)
		mustNil(t, err)
		again.NextFileNum = s.NextFileNum
		if describe(again) != describe(s) {
			t.Errorf("loaded\n%s, and from a snapshot of that\n%s", describe(s), describe(again))
		}
	})
}

func mustBeDamage(t *testing.T, err error) {
	t.Helper()
	if !errorIsCorruption(err, "MANIFEST-000001") && !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("error %v is neither corruption nor a newer format", err)
	}
}

// fuzzSalvage salvages what it can.
func fuzzSalvage(t *testing.T, m *vfs.Mem) {
	if _, err := Salvage(m, dir); err != nil {
		mustBeDamage(t, err)
	}
}

// fixSums makes the checksums of header and records right, as far as the lengths allow it.
func fixSums(b []byte) []byte {
	if len(b) < headerSize {
		return b
	}
	le := binary.LittleEndian
	le.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
	c := newChain(b[:headerSize])
	for rest := b[headerSize:]; len(rest) >= recordHeaderSize; {
		n := uint64(le.Uint32(rest))
		if n > uint64(len(rest)-recordHeaderSize) {
			break
		}
		record := rest[: recordHeaderSize+n : recordHeaderSize+n]
		copy(record, c.appendRecord(nil, slices.Clone(record[recordHeaderSize:])))
		rest = rest[recordHeaderSize+n:]
	}
	return b
}

// FuzzDecodeEdit checks that an accepted edit is the same after encoding and decoding, and
// that the encoding is no longer.
func FuzzDecodeEdit(f *testing.F) {
	f.Add(unhex(f, goldenEdit))
	f.Add([]byte{17, 3, 'x', 'y', 'z'})
	f.Add((&Edit{SealedLog: &SealedLog{}}).appendTo(nil))
	f.Add((&Edit{Sidecars: fullEdit().Sidecars}).appendTo(nil))
	f.Add((&Edit{Sessions: []Session{{ID: 1 << 60, From: 41, Log: 7}}}).appendTo(nil))
	f.Add((&Edit{Finished: []Finished{{Lower: []byte("a"), Upper: []byte("b"), Seq: 7}, {Seq: 9}}, Clock: 1 << 40}).appendTo(nil))
	var many *spans.Set
	for i := range 200 {
		many = many.With([]byte{byte(i)}, []byte{byte(i + 20)}, base.Seq(i+1))
	}
	f.Add((&Edit{Elsewhere: "b"}).appendTo(nil))
	f.Add((&Edit{Spans: many}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e *Edit
		var err error
		editLimit.Check(t, len(b), func() { e, err = decodeEdit(b) })
		if err != nil {
			return
		}
		bytes := e.appendTo(nil)
		again, err := decodeEdit(bytes)
		if err != nil || !reflect.DeepEqual(again, e) || len(bytes) > len(b) {
			t.Errorf("%x decodes to\n%s, which encodes to %d bytes and decodes to\n%s, %v", b, e, len(bytes), again, err)
		}
	})
}

// FuzzCurrent checks that only lines are accepted that would be written.
func FuzzCurrent(f *testing.F) {
	f.Add(current{manifest: 12, durable: 348}.appendTo(nil), false)
	f.Add([]byte(workedCurrent), false)
	f.Add(sumLine("shale 2 something new"), false)
	f.Add([]byte("shale 1 MANIFEST-000012 348"), true)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		if sum {
			b = sumLine(string(b))
		}
		var c current
		var err error
		lineLimit.Check(t, len(b), func() { c, err = decodeCurrent(b) })
		if err != nil {
			return
		}
		if again := c.appendTo(nil); string(again) != string(b) {
			t.Errorf("%q is accepted but written as %q", b, again)
		}
	})
}

// TestLimits_LargeManifests has inputs that a fuzzer does not reach. Manifests of many tables
// and logs, in many records and in one, also keep the limits.
func TestLimits_LargeManifests(t *testing.T) {
	const n = 6000
	num := func(i int) base.FileNum { return base.FileNum(i + 1) }
	added := func(i, level, run int) Added {
		key := fmt.Appendf(nil, "%08d", i)
		return Added{level, uint64(run), &Table{Num: num(i), Size: 1, Smallest: key, Largest: key, MinSeq: base.Seq(i), MaxSeq: base.Seq(i), Entries: 1, Keys: 1}}
	}
	for name, step := range map[string]func(i int) []Edit{
		"logs":        func(i int) []Edit { return []Edit{{NewLog: num(i)}} },
		"sealed logs": func(i int) []Edit { return []Edit{{NewLog: num(i)}, {SealedLog: &SealedLog{Num: num(i)}}} },
		"old logs":    func(i int) []Edit { return []Edit{{NewLog: num(i), MinLog: num(i)}} },
		"tables":      func(i int) []Edit { return []Edit{{Added: []Added{added(i, 1, 1)}}} },
		"runs":        func(i int) []Edit { return []Edit{{Added: []Added{added(i, 0, i)}}} },
		"old tables": func(i int) []Edit {
			return []Edit{{Added: []Added{added(i, 1, 1)}}, {Removed: []Removed{{Level: 1, Num: num(i)}}}}
		},
		"sidecars": func(i int) []Edit {
			return []Edit{{Added: []Added{added(i, 1, 1)}}, {Sidecars: []SidecarChange{{Level: 1, Num: num(i), Sidecar: &Sidecar{Num: num(i + n), Size: 1, FilterBytes: 1}}}}}
		},
	} {
		header := appendHeader(nil, 1, 1)
		many, one := newChain(header), newChain(header)
		file := slices.Clone(header)
		var all Edit
		for i := range n {
			for _, e := range step(i) {
				file = many.appendRecord(file, e.appendTo(nil))
				all.Added, all.Removed = append(all.Added, e.Added...), append(all.Removed, e.Removed...)
			}
		}
		files := [][]byte{file}
		if len(all.Removed) == 0 && len(all.Added) > 0 {
			files = append(files, one.appendRecord(slices.Clone(header), all.appendTo(nil)))
		}
		for _, file := range files {
			m := newMem(t)
			putFile(t, m, "MANIFEST-000001", file)
			_, err := writeCurrent(m, dir, current{manifest: 1, durable: headerSize})
			mustNil(t, err)
			loadLimit.Check(t, len(file), func() { _, err = Load(m, dir) })
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		encoded := all.appendTo(nil)
		editLimit.Check(t, len(encoded), func() { _, _ = decodeEdit(encoded) }) // Load has already checked the error
	}
}
