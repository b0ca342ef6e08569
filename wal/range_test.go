package wal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// writeRanges writes a log of records of all sizes, and returns where each of them ends. The first
// offset is 0, the last one the end of the seal.
func writeRanges(t *testing.T, mem *vfs.Mem, sizes []int) (ends []int64, payloads [][]byte) {
	t.Helper()
	if err := mem.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	w, err := Create(Header{StoreID: 7, Num: 9, Prev: 5, PrevLen: 4200, PrevSeq: 41}, Options{FS: mem, Dir: "d", Prealloc: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	ends = append(ends, 0)
	for i, size := range sizes {
		p := bytes.Repeat([]byte{byte(i + 1)}, size)
		end, err := w.Append(p, base.Seq(42+i))
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, p)
		ends = append(ends, end)
	}
	end, err := w.Seal()
	if err != nil {
		t.Fatal(err)
	}
	ends = append(ends, end)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ends, payloads
}

// readBoth is ReadRange. It checks that CopyRange reads the same records, fails likewise, and returns the bytes of
// the file.
func readBoth(t *testing.T, mem *vfs.Mem, from, to int64, fn func(payload []byte, end int64) error) (Result, error) {
	t.Helper()
	var records [][]byte
	last := max(min(from, to), headerSize)
	buf := make([]byte, 3, 10) // what it has, and how long it is, means nothing
	body, copied, cerr := CopyRange(mem, "d", 9, 7, from, to, &buf, func(payload []byte, end int64) error {
		records = append(records, bytes.Clone(payload))
		last = end
		return nil
	})
	if from > 0 && from < headerSize {
		if cerr == nil {
			t.Errorf("CopyRange begins at %d, within the header", from)
		}
		return ReadRange(mem, "d", 9, 7, from, to, fn)
	}
	n := 0
	res, err := ReadRange(mem, "d", 9, 7, from, to, func(payload []byte, end int64) error {
		if n >= len(records) || !bytes.Equal(payload, records[n]) {
			t.Errorf("%d to %d: record %d is not that of CopyRange", from, to, n)
		}
		n++
		return fn(payload, end)
	})
	var damage, cdamage *base.CorruptionError
	if n != len(records) || copied != res || errors.As(err, &damage) != errors.As(cerr, &cdamage) || (err == nil) != (cerr == nil) {
		t.Errorf("%d to %d: CopyRange has %d records, %+v, %v; ReadRange has %d, %+v, %v", from, to, len(records), copied, cerr, n, res, err)
	}
	if cerr == nil && from < to {
		if res.Sealed {
			last = to
		}
		f, err := mem.Open("d/" + base.LogName(9))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := make([]byte, last-from)
		if _, err := f.ReadAt(want, from); err != nil {
			t.Fatal(err)
		}
		if len(body) < len(want) || !bytes.Equal(body[:len(want)], want) {
			t.Errorf("%d to %d: CopyRange returns %d bytes, which are not those of the file", from, to, len(body))
		}
	}
	return res, err
}

// Every range between two ends of records gives the records between them.
func TestReadRange_EveryRange(t *testing.T) {
	mem := vfs.NewMem()
	ends, payloads := writeRanges(t, mem, []int{10, 1, 500, 32 << 10, 70 << 10, 32<<10 - 60, 20, 5, 100 << 10, 3})
	checkRanges(t, mem, ends, payloads)
}

// A log that was trimmed behind its seal is shorter than its header promises, so its first block is looked at
// before the range is read.
func TestReadRange_TrimmedLog(t *testing.T) {
	mem := vfs.NewMem()
	ends, payloads := writeRanges(t, mem, []int{10, 1, 500})
	name := "d/" + base.LogName(9)
	f, err := mem.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	trimmed := make([]byte, ends[len(ends)-1])
	if _, err := f.ReadAt(trimmed, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err = mem.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(trimmed); err != nil {
		t.Fatal(err)
	}
	checkRanges(t, mem, ends, payloads)
}

// checkRanges reads every range between two ends of records.
func checkRanges(t *testing.T, mem *vfs.Mem, ends []int64, payloads [][]byte) {
	t.Helper()
	for i := range ends {
		for j := i; j < len(ends); j++ {
			next := i
			res, err := readBoth(t, mem, ends[i], ends[j], func(payload []byte, end int64) error {
				if next >= len(payloads) || !bytes.Equal(payload, payloads[next]) || end != ends[next+1] {
					return fmt.Errorf("record %d: %d bytes that end at %d", next, len(payload), end)
				}
				next++
				return nil
			})
			want := min(j, len(payloads))
			if err != nil || next != max(want, i) || res.Records != uint64(max(want-i, 0)) || res.Sealed != (j == len(ends)-1 && i < j) || res.Length != max(ends[j], headerSize) {
				t.Fatalf("records %d to %d: %+v, %v, and %d came", i, j, res, err, next)
			}
			if j > i && res.LastSeq != base.Seq(41+want) {
				t.Errorf("records %d to %d: last number %d", i, j, res.LastSeq)
			}
		}
	}
}

// A range whose ends are not those of records is an error that names the log, and so is any damage
// within it. The log may have anything behind it.
func TestReadRange_Damage(t *testing.T) {
	testenv.SkipRace(t)
	mem := vfs.NewMem()
	ends, payloads := writeRanges(t, mem, []int{10, 700, 40 << 10, 9})
	read := func(from, to int64) error {
		_, err := readBoth(t, mem, from, to, func(p []byte, _ int64) error {
			for _, want := range payloads {
				if bytes.Equal(p, want) {
					return nil
				}
			}
			return errors.New("a record that nobody wrote")
		})
		return err
	}
	var damage *base.CorruptionError
	last := ends[len(ends)-1]
	for _, at := range []int64{1, 5000, ends[1] + 1, ends[2] - 1, ends[3] - 40000, last - 1, last + 1, last + 100000} {
		if err := read(0, at); at > headerSize && !errors.As(err, &damage) {
			t.Errorf("up to %d: %v", at, err)
		}
		if err := read(at, last+200000); at > headerSize && !errors.As(err, &damage) {
			t.Errorf("from %d: %v", at, err)
		}
	}
	f, err := mem.OpenReadWrite("d/" + base.LogName(9))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := int64(0); at < last; at += 1 + at/300 {
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		flip := func() {
			b[0] ^= 0x10
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
		flip()
		for i := range ends[:len(ends)-1] {
			from, to := ends[i], ends[i+1]
			err := read(from, to)
			inside := at >= max(from, headerSize) && at < to
			if inside && err == nil && !padding(at, ends) {
				t.Errorf("byte %d is wrong, and records from %d to %d were read", at, from, to)
			}
			if !inside && at >= headerSize && err != nil {
				t.Errorf("byte %d is wrong, and the records from %d to %d are not read: %v", at, from, to, err)
			}
		}
		flip()
	}
	if err := read(0, last); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRange(mem, "d", 8, 7, 0, last, nil); err == nil {
		t.Error("a log that is not there was read")
	}
	if _, err := ReadRange(mem, "d", 9, 6, 0, last, nil); !errors.As(err, &damage) {
		t.Errorf("the log of another store: %v", err)
	}
}

// padding reports whether offset at may be among the zeros at the end of a block, behind a record.
func padding(at int64, ends []int64) bool {
	for _, end := range ends {
		if end > 0 && at >= end && at < end+minRoom && blockRoom(end) < minRoom {
			return true
		}
	}
	return false
}

// A RangeReader finds what was appended since, in the same block too, and reads on where it has ended. When the file
// has become another log, it says so.
func TestRangeReader_Grows(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	w, err := Create(Header{StoreID: 7, Num: 9}, Options{FS: mem, Dir: "d"})
	if err != nil {
		t.Fatal(err)
	}
	x, err := OpenRanges(mem, "d", 9, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if h := x.Header(); h.Num != 9 || h.StoreID != 7 {
		t.Errorf("header %+v", h)
	}
	at := int64(0)
	for i, size := range []int{10, 0, 3, 40_000, 1, 70_000, 32_700} {
		want := bytes.Repeat([]byte{byte(i + 1)}, size)
		end, err := w.Append(want, base.Seq(i+1))
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		r, err := x.Read(at, end, func(payload []byte, to int64) error {
			if records++; !bytes.Equal(payload, want) || to != end {
				t.Errorf("record %d has %d bytes and ends at %d", i, len(payload), to)
			}
			return nil
		})
		if err != nil || records != 1 || r.Length != end || r.LastSeq != base.Seq(i+1) {
			t.Fatalf("record %d: %+v, %v", i, r, err)
		}
		at = end
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := Create(Header{StoreID: 7, Num: 10}, Options{FS: mem, Dir: "d", Recycle: 9})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := x.Read(0, at, func([]byte, int64) error { return nil }); !errors.Is(err, ErrAnother) {
		t.Errorf("after the file was used again: %v, want ErrAnother", err)
	}
}

// Synced is told when Writer.Synced has grown, and not of a sync that has failed.
func TestOptions_Synced(t *testing.T) {
	var w *Writer
	var told []int64
	var held error
	mem := vfs.NewMem()
	if err := mem.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	w, err := Create(Header{StoreID: 7, Num: 9}, Options{FS: mem, Dir: "d",
		Held: func() error { return held }, Synced: func() { told = append(told, w.Synced()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	end, err := w.Append([]byte("a"), 1)
	if err = errors.Join(err, w.Sync(), w.Sync()); err != nil || len(told) != 1 || told[0] != end {
		t.Errorf("told %d, %v; want %d", told, err, end)
	}
	if _, err := w.Append([]byte("b"), 2); err != nil {
		t.Fatal(err)
	}
	held = errors.New("lost")
	if err := w.Sync(); !errors.Is(err, held) || len(told) != 1 {
		t.Errorf("told %d, %v", told, err)
	}
}
