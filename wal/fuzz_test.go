package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// FuzzRead reads any bytes as a log. Read does not panic, takes at most a small multiple of
// the file's size in memory, and returns no other kind of error. What it accepts is what a
// Writer would have written, byte for byte.
//
// Inputs are kept small. A header comes without its zeros. fill is the size of a record
// before the bytes, so that they can cross the border of a block.
func FuzzRead(f *testing.F) {
	add := func(data []byte, known int64, salvage bool) {
		f.Add(data[:headerUsed], uint16(0), data[headerSize:], known, salvage)
	}
	add(mustReadFile(f, "example.wal"), -1, false)
	add(mustReadFile(f, "version2.wal"), -1, false)
	add(newImage(0).addEach(testPayloads(3), true).data, headerSize+100, true)
	hole := newImage(0).addEach(testPayloads(3), true).seal()
	clear(hole.data[headerSize+70 : headerSize+90])
	add(hole.data, -1, true)
	const fill = blockSize - 120
	over := newImage(0).add(string(make([]byte, fill)), 0)
	at := over.end()
	over.addEach([]string{testPayload(1, 200), "b"}, true)
	f.Add(over.data[:headerUsed], uint16(fill), over.data[at:], int64(-1), false)
	f.Fuzz(func(t *testing.T, header []byte, fill uint16, blocks []byte, known int64, salvage bool) {
		if len(header) > headerUsed || fill > blockSize || len(blocks) > 2*blockSize {
			return
		}
		data := bytes.Clone(header)
		if len(data) == headerUsed {
			data = append(data, make([]byte, headerSize-headerUsed)...)
			if fill > 0 {
				c := newCodec(testStore, 7)
				data = c.appendRecord(data, 0, record{payload: make([]byte, fill)})
			}
			data = append(data, blocks...)
		}
		for _, data := range [][]byte{data, mend(data)} {
			fuzzRead(t, data, ReadOptions{Known: known, Salvage: salvage})
		}
	})
}

// readLimit is for a block of the file, and a record of many fragments, which
// grows as it is put together, and its copy here; or an error for each gap.
var readLimit = fuzzing.Limit{Bytes: 64 << 10, PerByte: 12}

func fuzzRead(t *testing.T, data []byte, o ReadOptions) {
	fsys := fileSystem(data)
	var recs []record
	var res Result
	var err error
	readLimit.Check(t, len(data), func() {
		recs = recs[:0]
		res, err = Read(fsys, "", 7, testStore, o, func(p []byte) error {
			recs = append(recs, record{payload: bytes.Clone(p)})
			return nil
		})
	})
	if err != nil {
		if !isCorrupt(err) && !errors.Is(err, base.ErrFormatTooNew) {
			t.Errorf("Read = %v, want a CorruptionError", err)
		}
		return
	}
	end := max(int64(len(data)), headerSize) // a damaged header may be short
	if res.Records != uint64(len(recs)) || res.Length > end || res.Length < headerSize {
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
	// The bytes of padding are not read, so they may differ.
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

// mend makes the checksums right as far as the lengths allow it, so that the fuzzer gets past
// them.
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

// TestLimits_LargeLogs has inputs that a fuzzer does not reach: large logs also keep the
// limit of memory, and reading them reads each block a few times only. What a reader does for one
// block is limited by the size of a block, so this limits its time too.
func TestLimits_LargeLogs(t *testing.T) {
	const size = 400_000
	one := newImage(0).add(string(make([]byte, size)), 0)
	small, gaps := newImage(0), newImage(0)
	for small.end() < size {
		small.add("", 0)
	}
	for gaps.end() < size {
		gaps.add("", 0)
		gaps.data = append(gaps.data, 1)
	}
	gaps.add("", gaps.end())
	// At every eighth byte a fragment seems to begin that is as long as its block.
	tags := newImage(0)
	for i := 0; i < size; i += fragmentSize {
		tags.data = binary.LittleEndian.AppendUint32(tags.data, uint32(i))
		tags.data = binary.LittleEndian.AppendUint16(tags.data, uint16(max(0, blockRoom(tags.end()-4)-fragmentSize)))
		tags.data = binary.LittleEndian.AppendUint16(tags.data, tags.codec.mark|kindFull)
	}
	for name, image := range map[string]*image{"one record": one, "small records": small, "gaps": gaps, "tags": tags} {
		fsys := faultfs.New(fileSystem(image.data), nil)
		for _, salvage := range []bool{false, true} {
			var res Result
			var err error
			var reads int64
			readLimit.Memory(t, len(image.data), func() {
				before := fsys.Count(vfs.OpRead)
				res, err = Read(fsys, "", 7, testStore, ReadOptions{Known: -1, Salvage: salvage}, func([]byte) error { return nil })
				reads = fsys.Count(vfs.OpRead) - before
			})
			blocks := int64(len(image.data)/blockSize + 1)
			t.Logf("%s, salvage %v: %d reads of %d blocks", name, salvage, reads, blocks)
			if reads > 3*blocks {
				t.Errorf("%s, salvage %v: %d reads of %d blocks", name, salvage, reads, blocks)
			}
			damaged := err != nil || res.Damage != nil
			if err != nil && !isCorrupt(err) || damaged != (name == "gaps") || salvage && err != nil {
				t.Errorf("%s, salvage %v: %+v, %v", name, salvage, res, err)
			}
		}
	}
}
