package wal

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// FuzzRead reads any bytes as a log. There is no panic, no more memory than a
// small multiple of the file, no error of another kind, and what is accepted
// is what a Writer would have written, byte for byte.
func FuzzRead(f *testing.F) {
	f.Add(mustReadFile(f, "example.wal"), int64(-1), false)
	f.Add(mustReadFile(f, "version2.wal"), int64(-1), false)
	f.Add(newImage(0).addEach(spanningPayloads()[:8], true).seal().data, int64(-1), false)
	f.Add(newImage(0).addEach(testPayloads(9), true).data, int64(headerSize+100), true)
	hole := newImage(0).addEach(testPayloads(9), true).seal()
	clear(hole.data[headerSize+100 : headerSize+200])
	f.Add(hole.data, int64(-1), true)
	f.Fuzz(func(t *testing.T, data []byte, known int64, salvage bool) {
		if len(data) > 1<<20 {
			return
		}
		for _, data := range [][]byte{data, mend(data)} {
			fuzzRead(t, data, ReadOptions{Known: known, Salvage: salvage})
		}
	})
}

func fuzzRead(t *testing.T, data []byte, o ReadOptions) {
	fsys := fileSystem(data)
	var recs []record
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := Read(fsys, "", 7, testStore, o, func(p []byte) error {
		recs = append(recs, record{payload: bytes.Clone(p)})
		return nil
	})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 128<<10+12*uint64(len(data)) {
		t.Errorf("%d bytes allocated for a file of %d", n, len(data))
	}
	if err != nil {
		if !isCorrupt(err) && !errors.Is(err, base.ErrFormatTooNew) {
			t.Errorf("Read = %v, want a CorruptionError", err)
		}
		return
	}
	if res.Records != uint64(len(recs)) || res.Length > int64(len(data)) || res.Length < headerSize {
		t.Errorf("Read = %+v for %d records in %d bytes", res, len(recs), len(data))
	}
	if res.Damage == nil {
		checkReencode(t, data, recs, res)
	}
}

// checkReencode writes the records again, with what their headers say.
func checkReencode(t *testing.T, data []byte, recs []record, res Result) {
	c := newCodec(testStore, 7)
	again := append([]byte(nil), data[:headerSize]...)
	r := reader{codec: c, size: int64(len(data))}
	r.scan = newScanner(bytes.NewReader(data), "", r.size, &r.codec)
	for _, rec := range recs {
		first, _, _, err := r.nextRecord()
		if err != nil {
			t.Fatal(err)
		}
		head := first.record()
		rec.synced, rec.lastSeq = head.synced, head.lastSeq
		again = c.appendRecord(again, 0, rec)
	}
	if res.Sealed {
		again = c.appendSeal(again, 0, res.Records, res.LastSeq)
	}
	// What padding holds is not read.
	for off := int64(headerSize); off < res.Length && off < int64(len(again)); off += blockSize {
		end := min(off+blockSize, int64(len(again)))
		from := max(off, end-minRoom+1)
		for i := end - 1; i >= from && end == off+blockSize && again[i] == 0 && data[i] != 0; i-- {
			again[i] = data[i]
		}
	}
	if !bytes.Equal(again[headerSize:], data[headerSize:res.Length]) {
		t.Errorf("%d records encode differently", len(recs))
	}
}

// mend makes the checksums right where the lengths let it, so that the fuzzer
// gets behind them.
func mend(data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) < headerSize {
		return data
	}
	c := newCodec(testStore, 7)
	copy(data, appendHeader(nil, Header{Num: 7, StoreID: testStore}, 0)[:headerUsed])
	for off := int64(headerSize); off+fragmentSize <= int64(len(data)); {
		room := blockRoom(off)
		n := int(data[off+4]) | int(data[off+5])<<8
		if room < minRoom {
			off += int64(room)
			continue
		}
		if n > room-fragmentSize || off+fragmentSize+int64(n) > int64(len(data)) {
			break
		}
		c.finish(data[off:off+fragmentSize+int64(n)], off, uint16(data[off+6]&kindMask))
		off += fragmentSize + int64(n)
	}
	return data
}
