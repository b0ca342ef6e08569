package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// An image is a log that a test builds byte by byte. Its records may claim anything about
// what was synced.
type image struct {
	codec    codec
	data     []byte
	payloads []string
	starts   []int64 // offsets of the records, behind padding
	ends     []int64
}

func newImage(prealloc int64) *image {
	m := &image{codec: newCodec(testStore, 7)}
	m.data = appendHeader(nil, Header{Num: 7, StoreID: testStore, Session: 0x5e55}, prealloc)
	return m
}

func (m *image) end() int64 { return int64(len(m.data)) }

// add appends a record that claims that the log was synced up to the offset synced.
func (m *image) add(payload string, synced int64) *image {
	padded := int64(len(appendPadding(m.data, 0)))
	m.data = m.codec.appendRecord(m.data, 0, record{synced: synced, lastSeq: base.Seq(len(m.payloads) + 1), payload: []byte(payload)})
	m.payloads = append(m.payloads, payload)
	m.starts, m.ends = append(m.starts, padded), append(m.ends, m.end())
	return m
}

// addEach appends records. Either each syncs the one before it, or none does.
func (m *image) addEach(payloads []string, sync bool) *image {
	for _, p := range payloads {
		synced := int64(headerSize)
		if sync {
			synced = m.end()
		}
		m.add(p, synced)
	}
	return m
}

func (m *image) seal() *image {
	m.data = m.codec.appendSeal(m.data, 0, uint64(len(m.payloads)), base.Seq(len(m.payloads)))
	return m
}

// before returns how many records end at or before off.
func (m *image) before(off int64) int {
	n := 0
	for n < len(m.ends) && m.ends[n] <= off {
		n++
	}
	return n
}

// TestRead_CutFile cuts files whose length is known: it was preallocated, sealed or given by
// the caller. Every cut is damage.
func TestRead_CutFile(t *testing.T) {
	testenv.SkipRace(t)
	for _, tt := range []struct {
		name     string
		prealloc int64
		seal     bool
		known    bool
		damage   bool
	}{
		{"grown", 0, false, false, false},
		{"preallocated", 16 << 10, false, false, true},
		{"preallocated and trimmed", 16 << 10, true, false, true},
		{"known", 0, false, true, true},
		{"sealed and known", 0, true, true, true},
	} {
		m := newImage(tt.prealloc).addEach(testPayloads(12), false)
		if tt.seal {
			m.seal()
		}
		data := append([]byte(nil), m.data...)
		known := int64(-1)
		if tt.known {
			known = m.end()
		}
		if tt.prealloc != 0 && !tt.seal {
			data = append(data, make([]byte, tt.prealloc-m.end())...)
		}
		if got, _, err := readBytes(data, ReadOptions{Known: known}); err != nil || len(got) != 12 {
			t.Errorf("%s: whole: %d records, %v", tt.name, len(got), err)
		}
		for cut := range len(data) {
			got, _, err := readBytes(data[:cut], ReadOptions{Known: known})
			if !isPrefix(got, m.payloads) {
				t.Fatalf("%s: cut at %d: no prefix", tt.name, cut)
			}
			switch {
			case tt.damage || cut < headerSize:
				checkCorrupt(t, err, -1)
				// Without a trace of a record only the caller knows what it is.
				if want := cut < int(m.ends[0]); errors.Is(err, ErrNeverUsed) != want && tt.prealloc != 0 {
					t.Errorf("%s: cut at %d: %v, want ErrNeverUsed %v", tt.name, cut, err, want)
				}
			case err != nil || len(got) != m.before(int64(cut)):
				t.Errorf("%s: cut at %d: %d records, %v, want %d", tt.name, cut, len(got), err, m.before(int64(cut)))
			}
			if t.Failed() {
				t.Fatalf("%s: cut at %d of %d", tt.name, cut, len(data))
			}
		}
	}
}

// TestRead_EveryByteFlipped flips a bit of each byte, in four kinds of log. Read returns the
// right records, or an error.
func TestRead_EveryByteFlipped(t *testing.T) {
	testenv.SkipRace(t)
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	payloads := append(testPayloads(6), testPayload(77, blockSize), "end")
	for _, tt := range []struct {
		name       string
		sync, seal bool
		known      bool
		// lossless is the number of records at the end that may be lost
		// without an error: those that nothing is known of.
		lossless int
	}{
		{"never synced", false, false, false, len(payloads)},
		{"each synced", true, false, false, 1},
		{"sealed", true, true, false, 0},
		{"synced by the seal", false, true, false, 0},
		{"length known", false, false, true, 0},
	} {
		m := newImage(0).addEach(payloads, tt.sync)
		known := int64(-1)
		if tt.known {
			known = m.end()
		}
		if tt.seal {
			m.seal()
		}
		errs := 0
		for i := range m.data {
			if i >= int(m.starts[6])+100 && i < int(m.ends[6])-100 && i%64 != 0 {
				continue // many similar bytes
			}
			if testing.Short() && i%5 != 0 {
				continue
			}
			bit := byte(1) << rng.IntN(8)
			m.data[i] ^= bit
			got, _, err := readBytes(m.data, ReadOptions{Known: known})
			m.data[i] ^= bit
			if !isPrefix(got, payloads) {
				t.Fatalf("%s: flip of byte %d, seed %d: wrong records", tt.name, i, seed)
			}
			if err != nil {
				errs++
				checkCorrupt(t, err, -1)
			} else if lost := len(payloads) - len(got); lost > tt.lossless {
				t.Errorf("%s: flip of byte %d, seed %d: %d records lost, no error", tt.name, i, seed, lost)
			}
			if i < headerUsed && err == nil {
				t.Errorf("%s: flip of byte %d of the header: no error", tt.name, i)
			}
			if errors.Is(err, ErrNeverUsed) || errors.Is(err, base.ErrFormatTooNew) {
				t.Errorf("%s: flip of byte %d: %v", tt.name, i, err)
			}
		}
		if errs == 0 {
			t.Errorf("%s: no flip was noticed", tt.name)
		}
	}
}

// TestRead_SealDoesNotFit reads a seal that states another number of records than there are.
func TestRead_SealDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		records uint64
		seq     base.Seq
		ok      bool
	}{{2, 2, true}, {1, 2, false}, {3, 2, false}, {2, 3, false}, {2, 1, false}, {1 << 63, 2, false}} {
		m := newImage(0).addEach(testPayloads(2), true)
		at := m.end()
		m.data = m.codec.appendSeal(m.data, 0, tt.records, tt.seq)
		got, res, err := readBytes(m.data, ReadOptions{Known: -1})
		if len(got) != 2 {
			t.Errorf("%d records, want 2", len(got))
		}
		if tt.ok {
			if err != nil || !res.Sealed {
				t.Errorf("seal of %d records: %+v, %v", tt.records, res, err)
			}
			continue
		}
		checkCorrupt(t, err, at)
	}
}

// TestRead_BehindTheSeal checks that a recycled file may have anything behind the seal.
func TestRead_BehindTheSeal(t *testing.T) {
	m := newImage(0).addEach(testPayloads(2), true).seal()
	end := m.end()
	m.add("not to be seen", end)
	got, res, err := readBytes(m.data, ReadOptions{Known: -1})
	if err != nil || len(got) != 2 || !res.Sealed || res.Length != end {
		t.Errorf("Read = %d records, %+v, %v, want 2, sealed at %d", len(got), res, err, end)
	}
}

// TestRead_Known checks that a known length ends the log exactly there.
func TestRead_Known(t *testing.T) {
	m := newImage(0).addEach(testPayloads(5), true)
	for known := int64(0); known <= m.end()+40; known++ {
		got, res, err := readBytes(m.data, ReadOptions{Known: known})
		if n := m.before(known); known <= headerSize || n > 0 && known == m.ends[n-1] {
			if err != nil || len(got) != n || known > headerSize && res.Length != known {
				t.Errorf("known %d: %d records, %+v, %v, want %d", known, len(got), res, err, n)
			}
			continue
		}
		checkCorrupt(t, err, -1)
	}
}

// TestRead_ForgedRecord checks that a record needs more than a right checksum.
func TestRead_ForgedRecord(t *testing.T) {
	for _, r := range []record{
		{synced: -1, lastSeq: 5},
		{synced: 1 << 62, lastSeq: 5},
		{synced: headerSize + 1000, lastSeq: 5},
		{synced: headerSize, lastSeq: base.MaxSeq + 1},
		{synced: headerSize, lastSeq: 0}, // falls
	} {
		m := newImage(0).add("good", headerSize)
		at := m.end()
		m.data = m.codec.appendRecord(m.data, 0, r)
		got, _, err := readBytes(m.data, ReadOptions{Known: -1})
		checkPayloads(t, got, []string{"good"})
		checkCorrupt(t, err, at)
	}
}

// TestRead_ForgedFragment has fragments of every kind, length and place that a writer would
// not choose, under right checksums.
func TestRead_ForgedFragment(t *testing.T) {
	room := blockSize - fragmentSize
	for _, tt := range []struct {
		kind uint16
		n    int
	}{
		{0, 30}, {6, 30}, {7, 30}, {kindFull, 1}, {kindFull, 0}, {kindFirst, 30}, {kindFirst, 0}, {kindMiddle, room - 1},
		{kindMiddle, room}, {kindLast, 10}, {kindLast, 0}, {kindSeal, 9}, {kindSeal, 11}, {kindFirst, room},
	} {
		for at := range 2 {
			m := newImage(0)
			if at == 1 {
				m.add("good", headerSize)
			}
			c := &m.codec
			start := len(m.data)
			m.data = append(m.data, make([]byte, fragmentSize+tt.n)...)
			c.finish(m.data[start:], int64(start), tt.kind)
			got, res, err := readBytes(m.data, ReadOptions{Known: -1})
			if err != nil || len(got) != at || res.Sealed {
				t.Errorf("kind %d of %d bytes: %d records, %+v, %v, want %d", tt.kind, tt.n, len(got), res, err, at)
			}
		}
	}
}

// TestRead_ForgedRecordHeader has numbers of records that a writer would not write, under
// right checksums: cut off, longer than necessary, or longer than any can be.
func TestRead_ForgedRecordHeader(t *testing.T) {
	for _, head := range []string{"", "\x80", "\x80\x20", "\x80\x00\x01", "\x00\x80\x00", "\x80\x20\x80", "\x80\x20\x81\x00",
		"\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x01\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xff\xff\xff\xff\xff\xff\xff\x01"} {
		m := newImage(0).add("good", headerSize)
		start := len(m.data)
		m.data = append(append(m.data, zeros[:fragmentSize]...), head...)
		m.codec.finish(m.data[start:], int64(start), kindFull)
		got, res, err := readBytes(m.data, ReadOptions{Known: -1})
		if err != nil || len(got) != 1 || !res.Torn {
			t.Errorf("header %x: %d records, %+v, %v, want 1, Torn", head, len(got), res, err)
		}
	}
}

// TestRead_BadHeader checks which damaged headers may be those of a log that was being
// created.
func TestRead_BadHeader(t *testing.T) {
	header := func(num base.FileNum, store uint64) []byte {
		return appendHeader(nil, Header{Num: num, StoreID: store}, 0)
	}
	records := newImage(0).addEach(testPayloads(2), false).data[headerSize:]
	reseal := func(b []byte, off int, v uint64) []byte { // changes a field
		binary.LittleEndian.PutUint64(b[off:], v)
		binary.LittleEndian.PutUint32(b[64:], crc32.Checksum(b[:64], castagnoli))
		return b
	}
	older := newImage(0)
	older.codec = newCodec(testStore, 5)
	older.addEach(testPayloads(3), true)
	for _, tt := range []struct {
		name      string
		data      []byte
		neverUsed bool
	}{
		{"empty", nil, true},
		{"short", header(7, testStore)[:20], true},
		{"cut in its zeros", header(7, testStore)[:headerUsed], true},
		{"zeros", make([]byte, 3*blockSize), true},
		{"other magic", append([]byte("somebody else's file"), make([]byte, 5000)...), true},
		{"recycled, not begun", append(header(5, testStore), older.data[headerSize:]...), true},
		{"zeros, then records", append(make([]byte, headerSize), records...), false},
		{"older header, then records", append(header(5, testStore), records...), false},
		{"newer log", header(8, testStore), false},
		{"other store", header(7, 1), false},
		{"other store, then records", append(header(7, 1), records...), false},
		{"negative length", reseal(header(7, testStore), 32, 1<<63), true},
		{"negative predecessor's length", reseal(header(7, testStore), 48, 1<<63), true},
		{"sequence number out of range", reseal(header(7, testStore), 56, 1<<63), true},
		{"shorter than preallocated", reseal(header(7, testStore), 32, 1<<40), true},
	} {
		fsys := fileSystem(tt.data)
		_, herr := ReadHeader(fsys, "", 7, testStore, 0)
		_, _, err := readLog(fsys, 7, ReadOptions{Known: -1})
		for _, err := range []error{err, herr} {
			checkCorrupt(t, err, -1)
			if errors.Is(err, ErrNeverUsed) != tt.neverUsed {
				t.Errorf("%s: %v, want ErrNeverUsed %v", tt.name, err, tt.neverUsed)
			}
		}
		if t.Failed() {
			t.Fatal(tt.name)
		}
	}
	h, err := ReadHeader(fileSystem(exampleLog(t)), "", 7, testStore, 0)
	if h != exampleHeader() || err != nil {
		t.Errorf("ReadHeader = %+v, %v, want %+v", h, err, exampleHeader())
	}
}

func exampleLog(t testing.TB) []byte { return mustReadFile(t, "example.wal") }
