package wal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestRead_Hole makes a hole in a log, and puts evidence of it elsewhere. Records have the
// numbers 0 to 9, and the hole is in record 4. That record or later ones may say that the log
// was synced up to the end of some record.
func TestRead_Hole(t *testing.T) {
	testenv.SkipRace(t)
	size := 300
	for _, tt := range []struct {
		name   string
		size   int         // of the payloads
		synced map[int]int // record -> the log was synced up to the end of this record
		seal   bool
		known  int // ReadOptions.Known is the end of this record; -1: nothing is known
		damage bool
	}{
		{"nothing synced", size, nil, false, -1, false},
		{"synced before the hole", size, map[int]int{9: 3}, false, -1, false},
		{"synced before the hole, said before it", size, map[int]int{3: 2}, false, -1, false},
		{"the hit record was synced", size, map[int]int{9: 4}, false, -1, true},
		{"said by the next record", size, map[int]int{5: 4}, false, -1, true},
		{"said in the middle, not by the last", size, map[int]int{7: 5}, false, -1, true},
		{"sealed", size, nil, true, -1, true},
		{"known", size, nil, false, 4, true},
		{"known before the hole", size, map[int]int{9: 8}, false, 3, false},
		{"large: nothing synced", 3 * blockSize, nil, false, -1, false},
		{"large: synced before the hole", 3 * blockSize, map[int]int{9: 3}, false, -1, false},
		{"large: said by the next record", 3 * blockSize, map[int]int{5: 4}, false, -1, true},
		{"large: said by the last", 3 * blockSize, map[int]int{9: 8}, false, -1, true},
		{"large: sealed", 3 * blockSize, nil, true, -1, true},
	} {
		m := newImage(0)
		for i := range 10 {
			synced := int64(headerSize)
			if upTo, ok := tt.synced[i]; ok {
				synced = m.ends[upTo]
			}
			m.add(testPayload(i, tt.size), synced)
		}
		if tt.seal {
			m.seal()
		}
		known := int64(-1)
		if tt.known >= 0 {
			known = m.ends[tt.known]
		}
		// The hole is the record, its first bytes, its last ones, some in the
		// middle, or the sectors that it is in (records before it are left
		// alone).
		from, to := m.starts[4], m.ends[4]
		for _, hole := range [][2]int64{{from, to}, {from, from + 10}, {to - 10, to}, {(from + to) / 2, to}, {from, min((to+511)&^511, m.end())}, {from, m.ends[5]}} {
			data := slices.Clone(m.data)
			for i := hole[0]; i < hole[1]; i++ {
				data[i] ^= 0xa5
			}
			got, res, err := readBytes(data, ReadOptions{Known: known})
			checkPayloads(t, got, m.payloads[:4])
			gone := hole[1] > m.starts[5] // the next record is hit too, and what it says is lost
			if tt.damage && !(gone && tt.synced[5] != 0) {
				checkCorrupt(t, err, -1)
				var c *base.CorruptionError
				if errors.As(err, &c) && (c.Offset < m.ends[3] || c.Offset >= hole[1]) {
					t.Errorf("damage at %d, want it from %d to %d", c.Offset, m.ends[3], hole[1])
				}
			} else if err != nil || res.Length != m.ends[3] || known < 0 && !res.Torn {
				t.Errorf("Read = %+v, %v, want length %d, torn", res, err, m.ends[3])
			}
			if t.Failed() {
				t.Fatalf("%s: hole %d", tt.name, hole)
			}
		}
	}
}

// TestRead_EvidenceOfAFirstFragment checks that the record which proves the damage need not
// be whole.
func TestRead_EvidenceOfAFirstFragment(t *testing.T) {
	m := newImage(0).addEach(testPayloads(3), false)
	m.add(testPayload(3, 2*blockSize), m.ends[2])
	m.data = m.data[:headerSize+blockSize] // its first fragment is left
	m.data[m.starts[1]+20] ^= 1
	_, _, err := readBytes(m.data, ReadOptions{Known: -1})
	checkCorrupt(t, err, m.starts[1])
}

// TestRead_EvidenceBehindZeros checks that the search, which skips zeros, misses nothing, for
// any number of zeros and any place where they begin.
func TestRead_EvidenceBehindZeros(t *testing.T) {
	for zeros := int64(1); zeros < 60; zeros++ {
		m := newImage(0).add(testPayload(0, 40), headerSize)
		hole := m.end()
		m.add(string(make([]byte, zeros)), headerSize)
		m.add("evidence", m.end())
		for from := hole; from < m.ends[1]; from++ {
			data := slices.Clone(m.data)
			clear(data[from:m.ends[1]])
			data[hole] ^= 1
			_, _, err := readBytes(data, ReadOptions{Known: -1})
			checkCorrupt(t, err, hole)
			if t.Failed() {
				t.Fatalf("zeros from %d to %d", from, m.ends[1])
			}
		}
	}
}

// TestRead_NoEvidenceInPadding checks that bytes where no record can begin are no evidence,
// even under a right checksum.
func TestRead_NoEvidenceInPadding(t *testing.T) {
	m := newImage(0).add("a", headerSize)
	hole := m.end()
	header := len(appendRecordHeader(nil, record{synced: headerSize, lastSeq: 2}))
	m.add(testPayload(0, blockRoom(hole)-header-(minRoom-1)), headerSize)
	at := len(m.data)
	m.data = appendRecordHeader(m.data, record{synced: int64(at), lastSeq: 9})
	m.codec.finish(m.data[at:], int64(at), kindFull)
	clear(m.data[hole : hole+512])
	if got, _, err := readBytes(m.data, ReadOptions{Known: -1}); err != nil || len(got) != 1 {
		t.Errorf("Read = %d records, %v, want 1", len(got), err)
	}
}

// TestRead_RecycledFile leaves an older log behind a newer one, at every length of the newer
// one that a crash could leave. No record of the older log comes back, even if the newer one
// ends exactly where one of them begins.
func TestRead_RecycledFile(t *testing.T) {
	testenv.SkipRace(t)
	fs := vfs.NewMem()
	o := Options{FS: fs, Prealloc: 128 << 10}
	w := mustCreate(t, Header{Num: 6, StoreID: testStore}, o)
	same := testPayloads(1000)
	for i, p := range same {
		mustAppend(t, w, p, base.Seq(i+1))
		mustSync(t, w)
	}
	if _, err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	o.Recycle = 6
	w = mustCreate(t, Header{Num: 7, StoreID: testStore, Prev: 6}, o)
	defer mustClose(t, w)
	for i := range 200 {
		got, res, err := readLog(fs, 7, ReadOptions{Known: -1})
		if err != nil || len(got) != i || !isPrefix(got, same) || res.Length != w.Len() || res.Torn {
			t.Fatalf("after %d records: %d records, %+v, %v", i, len(got), res, err)
		}
		mustAppend(t, w, same[i], base.Seq(i+1)) // the same length as the older record in its place
	}
	if names, _ := fs.List("."); !slices.Equal(names, []string{"000007.wal"}) {
		t.Errorf("files are %q, want the recycled one only", names)
	}
}

// TestRead_PayloadIsALog checks that a value may be a log itself, even one of the same store
// and number.
func TestRead_PayloadIsALog(t *testing.T) {
	inner := newImage(0).addEach(testPayloads(50), true).seal()
	m := newImage(0).add("first", headerSize).add(string(inner.data), headerSize).add("last", headerSize)
	got, _, err := readBytes(m.data, ReadOptions{Known: -1})
	if err != nil {
		t.Fatal(err)
	}
	checkPayloads(t, got, m.payloads)
	for i := range m.data[m.starts[1]+20 : m.starts[1]+80] {
		m.data[m.starts[1]+20+int64(i)] ^= byte(i + 1) // damaged, so that Read searches for fragments
	}
	got, _, err = readBytes(m.data, ReadOptions{Known: -1})
	if err != nil {
		t.Errorf("evidence was taken from a value: %v", err)
	}
	checkPayloads(t, got, m.payloads[:1])
}

// TestRead_ReadError checks that an error of the device, at any read, is taken neither for
// the end of the log nor for damage.
func TestRead_ReadError(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage bool
	}{{"whole", false}, {"damaged", true}} {
		m := newImage(0).addEach(append(testPayloads(3), testPayload(0, 3*blockSize)), true)
		if tt.damage {
			m.data[m.starts[1]] ^= 1
		}
		base := fileSystem(m.data)
		for k := int64(1); ; k++ {
			fs := faultfs.New(base, faultfs.FailAt(k, syscall.EIO, vfs.OpRead, vfs.OpStat, vfs.OpOpen))
			_, _, err := readLog(fs, 7, ReadOptions{Known: -1})
			if fs.Count(vfs.OpRead)+fs.Count(vfs.OpStat)+fs.Count(vfs.OpOpen) < k {
				if k < 5 {
					t.Errorf("only %d operations failed", k-1)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: read %d fails: Read = %v, want EIO", tt.name, k, err)
			}
			if isCorrupt(err) {
				t.Errorf("%s: read %d fails: Read = %v, which is no damage", tt.name, k, err)
			}
		}
	}
}

func isCorrupt(err error) bool {
	var c *base.CorruptionError
	return errors.As(err, &c)
}

// TestRead_Salvage checks that Read passes on all records that are whole.
func TestRead_Salvage(t *testing.T) {
	testenv.SkipRace(t)
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	payloads := append(testPayloads(30), testPayload(30, 3*blockSize))
	payloads = append(payloads, testPayloads(40)[31:]...)
	for range 200 {
		m := newImage(0).addEach(payloads, true).seal()
		hit := map[int]bool{}
		for range 1 + rng.IntN(4) {
			i := rng.IntN(len(payloads))
			hit[i] = true
			m.data[m.starts[i]+rng.Int64N(m.ends[i]-m.starts[i])] ^= 1 << rng.IntN(8)
		}
		var want []string
		for i, p := range payloads {
			if !hit[i] {
				want = append(want, p)
			}
		}
		got, res, err := readBytes(m.data, ReadOptions{Known: m.end(), Salvage: true})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !slices.Equal(got, want) || res.Records != uint64(len(want)) {
			// Two flips may cancel out.
			if _, _, err := readBytes(m.data, ReadOptions{Known: -1}); err != nil {
				t.Fatalf("seed %d: %d records, want %d", seed, len(got), len(want))
			}
		}
		checkCorrupt(t, res.Damage, -1)
	}
}

// TestRead_StopsAtError checks that an error of the caller's function ends Read and is
// returned.
func TestRead_StopsAtError(t *testing.T) {
	m := newImage(0).addEach(testPayloads(3), true)
	stop := errors.New("stop")
	n := 0
	_, err := Read(fileSystem(m.data), "", 7, testStore, ReadOptions{Known: -1}, func([]byte) error {
		if n++; n == 2 {
			return stop
		}
		return nil
	})
	if err != stop || n != 2 {
		t.Errorf("Read = %v after %d records, want the caller's error after 2", err, n)
	}
}
