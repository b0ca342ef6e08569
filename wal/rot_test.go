package wal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A rotShape says how a log is written.
type rotShape struct {
	name     string
	prealloc int64
	noMap    bool
	older    []string // the log that the file was before; nil: it is new
	records  []string
	group    bool // the last three records are appended as one group
}

// A rotLog is a log whose records are all synced, while no record in it says so about the
// last ones.
type rotLog struct {
	rotShape
	now, was  []byte // the file, and the file as it was before the last append
	last, end int64  // offsets where the last append begins and ends
	count     int
	synced    int // number of records before the last append
}

// text returns n random characters. Like the values of a store, they do not repeat with a
// period.
func text(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "etaoinshrdlu ETAOIN0123456789,.:{}\"_-"[rng.IntN(37)]
	}
	return string(b)
}

// rotLogs returns logs of all shapes.
func rotLogs(t testing.TB, seed uint64) (all []rotLog) {
	rng := rand.New(rand.NewPCG(seed, 0))
	texts := func(sizes ...int) (list []string) {
		for _, n := range sizes {
			list = append(list, text(rng, n))
		}
		return list
	}
	small := []int{60, 41, 77, 52, 30, 66, 48, 59, 35, 71}
	same := texts(50, 50, 50, 50, 50, 50, 50, 50, 50, 50)
	for _, s := range []rotShape{
		{name: "one record", prealloc: 64 << 10, records: texts(40)},
		{name: "one tiny record", prealloc: 64 << 10, records: []string{"\x01\x01\x01\x01k\x02v7"}},
		{name: "small records", prealloc: 64 << 10, records: texts(small...)},
		{name: "small records, written by calls", prealloc: 64 << 10, noMap: true, records: texts(small...)},
		{name: "small records, a group", prealloc: 64 << 10, records: texts(small...), group: true},
		{name: "small records in a growing file", records: texts(small...)},
		{name: "a record of many sectors", prealloc: 64 << 10, records: texts(30, 3000)},
		{name: "a record of many sectors in a growing file", records: texts(30, 3000)},
		{name: "a record of three blocks", prealloc: 256 << 10, records: texts(30, 70_000)},
		{name: "a record that ends its block", prealloc: 64 << 10, records: texts(30, blockSize-fragmentSize-3-41)},
		{name: "small records over longer ones", prealloc: 64 << 10, older: texts(400, 400, 400, 400), records: texts(small...)},
		{name: "small records over many", prealloc: 64 << 10, older: texts(append(small, small...)...), records: texts(33, 44, 55, 66, 77)},
		{name: "a record of many sectors over small ones", prealloc: 64 << 10, older: texts(slices.Repeat(small, 20)...), records: texts(30, 3000)},
		{name: "a record of many sectors over large ones", prealloc: 64 << 10, older: texts(3000, 3000, 3000), records: texts(30, 2000)},
		{name: "records in the places of others", prealloc: 64 << 10, older: same, records: texts(50, 50, 50, 50, 50)},
	} {
		all = append(all, writeRotLog(t, s))
	}
	return all
}

func writeRotLog(t testing.TB, s rotShape) rotLog {
	t.Helper()
	mem := vfs.NewMem()
	o := Options{FS: mem, Prealloc: s.prealloc, NoMap: s.noMap}
	if s.older != nil {
		w := mustCreate(t, Header{Num: 6, StoreID: testStore}, o)
		for i, p := range s.older {
			mustAppend(t, w, p, base.Seq(i+501))
			mustSync(t, w)
		}
		if _, err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, w)
		o.Recycle = 6
	}
	w := mustCreate(t, Header{Num: 7, StoreID: testStore, PrevSeq: 1000}, o)
	l := rotLog{rotShape: s, count: len(s.records), synced: len(s.records) - 1}
	if s.group {
		l.synced -= 2
	}
	for i, p := range s.records[:l.synced] {
		mustAppend(t, w, p, base.Seq(i+1001))
		mustSync(t, w)
	}
	l.was, l.last = readAll(t, mem, 7), w.Len()
	if _, err := w.AppendBatch(toBytes(s.records[l.synced:]), base.Seq(1000+len(s.records)), true); err != nil {
		t.Fatal(err)
	}
	mustSync(t, w)
	l.now, l.end = readAll(t, mem, 7), w.Len()
	mustClose(t, w)
	return l
}

// dropped reports whether Read loses records of data without an error.
func (l *rotLog) dropped(t testing.TB, fsys vfs.FS, data []byte) bool {
	t.Helper()
	f, err := fsys.OpenReadWrite(base.LogName(7))
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, err := readLog(fsys, 7, ReadOptions{Known: -1})
	if err != nil {
		checkCorrupt(t, err, -1)
		return false
	}
	if len(got) < l.synced {
		t.Fatalf("%s: %d records without an error, %d were synced", l.name, len(got), l.synced)
	}
	return len(got) < l.count
}

// tornTo reports whether a write of the last records that was cut short could have left data,
// which differs from what was written. For each wrong byte, that byte and all behind it in
// its sector must be the older ones, or its whole word must be.
func (l *rotLog) tornTo(data []byte) bool {
	was := append(slices.Clone(l.was), make([]byte, len(l.now)-len(l.was))...)
	for i := headerSize; i < int(l.end); i++ {
		if data[i] == l.now[i] {
			continue
		}
		end := min(i&^511+512, int(l.end))
		word := i &^ (8 - 1)
		if !bytes.Equal(data[i:end], was[i:end]) && !bytes.Equal(data[word:word+8], was[word:word+8]) {
			return false
		}
	}
	return true
}

// TestRot_EveryBit flips each bit of logs whose records are all synced. No record is lost
// without an error, except where a torn write may have left the same bytes: there the two
// can't be distinguished. In a file that was another log before that may be anywhere in the
// last append.
func TestRot_EveryBit(t *testing.T) {
	testenv.SkipRace(t)
	step := 5
	if testing.Short() {
		step = 23
	}
	if testenv.Long(t) > 0 {
		step = 1
	}
	for _, l := range rotLogs(t, 1) {
		fsys := fileSystem(l.now)
		flips, lost, torn := 0, 0, 0
		data := slices.Clone(l.now)
		for at := headerSize * 8; at < int(l.end)*8; at += l.step(step) {
			flips++
			data[at/8] ^= 1 << (at % 8)
			if l.dropped(t, fsys, data) {
				lost++
				if l.tornTo(data) {
					torn++
				} else if l.older == nil {
					t.Errorf("%s: a flip of bit %d of byte %d, in a log that ends at %d, loses a record without a word", l.name, at%8, at/8, l.end)
				}
			}
			data[at/8] ^= 1 << (at % 8)
		}
		t.Logf("%s: %d flips, %d lost, %d of them as a torn write leaves it", l.name, flips, lost, torn)
	}
}

// step returns by how many bits a test goes on. Long logs have many similar bits.
func (l *rotLog) step(least int) int {
	if l.end > headerSize+1500 {
		return least * 199
	}
	return least
}

// few returns n, or many if long tests are wanted.
func few(t testing.TB, n, many int) int {
	switch {
	case testenv.Long(t) > 0:
		return many
	case testing.Short():
		return max(1, n/3)
	}
	return n
}

// TestRot_TornIsNotRot tears the last write of logs in each way in which a crash can. The
// older bytes are zeros, other records, or records that differ from the newer ones in a
// single bit. Read never takes the result for damage.
func TestRot_TornIsNotRot(t *testing.T) {
	testenv.SkipRace(t)
	rng := rand.New(rand.NewPCG(1, 0))
	tries := few(t, 200, 2000)
	judged, torn := 0, 0
	for _, l := range slices.Concat(rotLogs(t, 2), likeLogs(t, 2)) {
		fsys := fileSystem(l.now)
		was := append(slices.Clone(l.was), make([]byte, len(l.now)-len(l.was))...)
		for i := range tries {
			data := slices.Clone(l.now)
			what := l.tear(rng, i, data, was)
			f, err := fsys.OpenReadWrite(base.LogName(7))
			if err == nil {
				_, err = f.WriteAt(data, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			got, _, err := readLog(fsys, 7, ReadOptions{Known: -1})
			if err != nil || len(got) < l.synced {
				t.Fatalf("%s, %s: %d records, %v", l.name, what, len(got), err)
			}
			judged++
			if len(got) < l.count {
				torn++
			}
		}
	}
	t.Logf("%d tears, %d of which lose a record", judged, torn)
}

// tear puts older bytes into data where the last records of l are.
func (l *rotLog) tear(rng *rand.Rand, i int, data, was []byte) string {
	from, to := int(l.last), int(l.end)
	switch i % 4 {
	case 0: // from some byte on
		at := from + (i/4)%(to-from)
		copy(data[at:to], was[at:to])
		return fmt.Sprintf("cut at %d", at)
	case 1: // some sectors
		keep := rng.IntN(4)
		for s := from &^ 511; s < to; s += 512 {
			if rng.IntN(4) <= keep {
				continue
			}
			copy(data[max(from, s):min(to, s+512)], was[max(from, s):])
		}
		return "sectors by chance"
	case 2: // one sector, from some byte on
		at := from + rng.IntN(to-from)
		end := min(to, at&^511+512)
		copy(data[at:end], was[at:end])
		return fmt.Sprintf("from %d to %d", at, end)
	}
	n := 1 + rng.IntN(4) // words
	for range n {
		at := max(from, (from+rng.IntN(to-from))&^(8-1))
		end := min(to, at&^(8-1)+8)
		copy(data[at:end], was[at:end])
	}
	return fmt.Sprintf("%d words", n)
}

// likeLogs returns logs over older ones that are nearly the same, with the records in the
// same places and in others.
func likeLogs(t testing.TB, seed uint64) (all []rotLog) {
	rng := rand.New(rand.NewPCG(seed, 1))
	all = append(all, writeRotLog(t, rotShape{
		name: "a key over one that is a byte longer", prealloc: 128 << 10, older: []string{"\x01\x0duser00000910\x00\x00"}, records: []string{"\x01\x0cuser00000910\x00"},
	}))
	// The older log ends where the newer one does: only zeros follow.
	for range 10 {
		older := text(rng, 60)
		newer := []byte(older)
		newer[20+rng.IntN(35)] ^= 1 << rng.IntN(3)
		all = append(all, writeRotLog(t, rotShape{
			name: "a record over the last one of an older log, of which it differs in a bit", prealloc: 128 << 10, older: []string{older}, records: []string{string(newer)},
		}))
	}
	for _, size := range []int{20, 100, 500, 1500, 5000} {
		for _, shift := range []int{0, 1, 7} {
			value := []byte(text(rng, size))
			var older, records []string
			for range 20 {
				value[rng.IntN(size)] ^= 1 << rng.IntN(3)
				older = append(older, string(value))
			}
			records = append(records, text(rng, size+shift))
			for i := range 5 {
				value = []byte(older[i+1])
				value[rng.IntN(size)] ^= 1 << rng.IntN(3)
				records = append(records, string(value))
			}
			l := writeRotLog(t, rotShape{
				name: fmt.Sprintf("records of %d bytes over their like, moved by %d", size, shift), prealloc: 128 << 10, older: older, records: records,
			})
			all = append(all, l)
		}
	}
	return all
}
