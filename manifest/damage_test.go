package manifest

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// lifeFile returns the bytes of the manifest of life, and the offsets of its records and of
// its end.
func lifeFile(t testing.TB, m *vfs.Mem, finish bool) (b []byte, offsets []int64) {
	t.Helper()
	writeLife(t, m, finish)
	b = readFile(t, m, "MANIFEST-000001")
	_, err := ReadEdits(m, dir, 1, func(offset int64, _ *Edit) error {
		offsets = append(offsets, offset)
		return nil
	})
	mustNil(t, err)
	return b, append(offsets, int64(len(b)))
}

func TestLoad_EveryBitCounts(t *testing.T) {
	for _, finish := range []bool{false, true} {
		m := newMem(t)
		good, offsets := lifeFile(t, m, finish)
		last := int(offsets[len(offsets)-2])
		beforeLast := describe(states(t)[len(life())-1])
		cases, lost := 0, 0
		for i := range good {
			for bit := range 8 {
				cases++
				bad := slices.Clone(good)
				bad[i] ^= 1 << bit
				putFile(t, m, "MANIFEST-000001", bad)
				s, err := Load(m, dir)
				// A torn append leaves zeros, and this byte may be the last of them.
				torn := err == nil && s.torn && describe(s) == beforeLast && i >= last && !finish && bad[i] == 0
				if torn {
					lost++
				}
				if !torn && !errorIsCorruption(err, "MANIFEST-000001") {
					t.Fatalf("finished %v, bit %d of byte %d flipped: %+v, %v", finish, bit, i, s, err)
				}
			}
		}
		t.Logf("finished %v: %d flips, %d taken for a torn end", finish, cases, lost)
	}
}

// TestLoad_TornIsNotRot tears the last append in each way in which a crash can: zeros or
// garbage in whole sectors, or zeros from some byte to the end. Load never takes the result
// for damage.
func TestLoad_TornIsNotRot(t *testing.T) {
	testenv.SkipRace(t)
	rng := rand.New(rand.NewPCG(1, 0))
	for _, size := range []int{1, 40, 300, 1200, 5000} {
		m := newMem(t)
		l, err := Create(m, dir, 1, states(t)[0])
		mustNil(t, err)
		for num := range base.FileNum(rng.IntN(60)) {
			mustNil(t, l.Append(&Edit{NewLog: num + 2}, true))
		}
		before := l.Size()
		key := make([]byte, size)
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		added := table(100, "a", "b"+string(key))
		mustNil(t, l.Append(&Edit{NextFileNum: 200, Added: []Added{{Level: 5, Table: added}}}, true))
		mustNil(t, l.Close())
		good := readFile(t, m, "MANIFEST-000001")
		for try := range 600 {
			bad := slices.Clone(good)
			from := int(before)
			switch try % 3 {
			case 0:
				clear(bad[from+rng.IntN(len(bad)-from):])
			case 1:
				at := from + rng.IntN(len(bad)-from)
				clear(bad[at:min(len(bad), at&^511+512)])
			default:
				for s := from &^ 511; s < len(bad); s += 512 {
					for i := max(s, from); i < min(s+512, len(bad)) && s%1024 == try%2*512; i++ {
						bad[i] = byte(rng.Uint32()) & -byte(min(1, max(0, s-from)))
					}
				}
			}
			if slices.Equal(bad, good) {
				continue
			}
			putFile(t, m, "MANIFEST-000001", bad)
			if s, err := Load(m, dir); err != nil || !s.torn || s.Length != before {
				t.Fatalf("record of %d bytes, try %d: %+v, %v", len(good)-from, try, s, err)
			}
		}
	}
}

// TestLoad_TornIsNotRotByChance tears the last append so that one flipped bit makes the checksum
// match, as garbage does now and then, the more often the longer it is. What the bit would mend is
// no edit, so the record is torn and not damaged.
func TestLoad_TornIsNotRotByChance(t *testing.T) {
	m := newMem(t)
	l, err := Create(m, dir, 1, states(t)[0])
	mustNil(t, err)
	before := l.Size()
	mustNil(t, l.Append(&Edit{NewLog: 2}, true))
	at := l.Size()
	added := table(100, "a", "b"+strings.Repeat("k", 1000))
	mustNil(t, l.Append(&Edit{NextFileNum: 200, Added: []Added{{Level: 5, Table: added}}}, true))
	mustNil(t, l.Close())
	good := readFile(t, m, "MANIFEST-000001")
	record := good[at:]
	payload := record[recordHeaderSize:]
	n := len(payload)
	last := binary.LittleEndian.Uint32(good[before+4:]) // the chain continues from it
	rng := rand.New(rand.NewPCG(1, 0))
	for range 100 {
		for i := 0; i < n; i++ {
			payload[i] = byte(1 + rng.IntN(255)) // no zero, which might be an older one
		}
		// The last four bytes make the checksum match: they are the register before them, xor the
		// one from which four zeros lead to the checksum.
		want := ^binary.LittleEndian.Uint32(record[4:])
		for range 4 {
			for b, v := range castagnoli {
				if v>>24 == want>>24 {
					want = (want^v)<<8 | uint32(b)
					break
				}
			}
		}
		is := ^crc32.Update(crc32.Update(last, castagnoli, record[:4]), castagnoli, payload[:n-4])
		binary.LittleEndian.PutUint32(payload[n-4:], is^want)
		bit := rng.IntN(8 * (n - 8))
		if payload[bit/8] ^= 1 << (bit % 8); payload[bit/8] == 0 {
			continue
		}
		putFile(t, m, "MANIFEST-000001", good)
		if s, err := Load(m, dir); err != nil || !s.torn {
			t.Fatalf("%+v, %v", s, err)
		}
	}
}

func TestLoad_EveryLength(t *testing.T) {
	for _, finish := range []bool{false, true} {
		m := newMem(t)
		good, offsets := lifeFile(t, m, finish)
		for n := range good {
			putFile(t, m, "MANIFEST-000001", good[:n])
			s, err := Load(m, dir)
			// The first record is the snapshot, so the file has edits-1 edits of life.
			edits, _ := slices.BinarySearch(offsets, int64(n)+1)
			if finish || edits < 2 {
				if !errorIsCorruption(err, "MANIFEST-000001") {
					t.Errorf("finished %v, cut to %d bytes: %+v, %v", finish, n, s, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("cut to %d bytes: %v", n, err)
				continue
			}
			whole := offsets[edits-1]
			if got, want := describe(s), describe(states(t)[edits-2]); got != want || s.torn != (int64(n) > whole) || s.Length != whole {
				t.Errorf("cut to %d bytes: torn %v, length %d, state\n%s, want %v, %d,\n%s", n, s.torn, s.Length, got, int64(n) > whole, whole, want)
			}
		}
	}
}

func TestLoad_Zeroed(t *testing.T) {
	for _, size := range []int{1, 16, 64, 512} {
		m := newMem(t)
		good, _ := lifeFile(t, m, true)
		for i := 0; i < len(good); i += size {
			bad := slices.Clone(good)
			clear(bad[i:min(i+size, len(bad))])
			if slices.Equal(bad, good) {
				continue
			}
			putFile(t, m, "MANIFEST-000001", bad)
			if s, err := Load(m, dir); !errorIsCorruption(err, "MANIFEST-000001") {
				t.Errorf("%d bytes zeroed at %d: %+v, %v", size, i, s, err)
			}
		}
	}
}

// TestLoad_RecordsMoved drops, repeats and swaps whole records. Each checks by itself, but
// not behind another record or in another place.
func TestLoad_RecordsMoved(t *testing.T) {
	m := newMem(t)
	good, offsets := lifeFile(t, m, false)
	record := func(i int) []byte { return good[offsets[i]:offsets[i+1]] }
	var all [][]byte
	for i := range len(offsets) - 1 {
		all = append(all, record(i))
	}
	n := len(all)
	check := func(what string, records ...[]byte) {
		t.Helper()
		putFile(t, m, "MANIFEST-000001", append(good[:headerSize:headerSize], slices.Concat(records...)...))
		if s, err := Load(m, dir); !errorIsCorruption(err, "MANIFEST-000001") && (s == nil || !s.torn || describe(s) != describe(states(t)[n-2])) {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	for i := range n - 2 {
		check("dropped", slices.Delete(slices.Clone(all), i, i+1)...)
		swapped := slices.Clone(all)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		check("swapped", swapped...)
		check("repeated", slices.Insert(slices.Clone(all), i, all[i])...)
	}
	// Two records of equal length, so that even offsets stay right.
	same := newMem(t)
	l, err := Create(same, dir, 1, states(t)[0])
	mustNil(t, err)
	for num := base.FileNum(2); num < 6; num++ {
		mustNil(t, l.Append(&Edit{NewLog: num}, true))
	}
	mustNil(t, l.Close())
	b := readFile(t, same, "MANIFEST-000001")
	size := recordHeaderSize + 3
	first := len(b) - 4*size
	swapped := slices.Concat(b[:first], b[first+size:first+2*size], b[first:first+size], b[first+2*size:])
	putFile(t, same, "MANIFEST-000001", swapped)
	if s, err := Load(same, dir); !errorIsCorruption(err, "MANIFEST-000001") {
		t.Errorf("equal records swapped: %+v, %v", s, err)
	}
}

func TestLoad_AnotherStoresManifest(t *testing.T) {
	m := newMem(t)
	good, _ := lifeFile(t, m, false)
	putFile(t, m, "MANIFEST-000002", good)
	_, err := writeCurrent(m, dir, current{manifest: 2, durable: headerSize})
	mustNil(t, err)
	if s, err := Load(m, dir); !errorIsCorruption(err, "MANIFEST-000002") {
		t.Errorf("Load of manifest 1 under the name of manifest 2: %+v, %v", s, err)
	}
}

// TestLoad_GarbageBehindTheEnd checks that bytes which the file system adds to a file are not
// damage, but that nothing may be appended behind them.
func TestLoad_GarbageBehindTheEnd(t *testing.T) {
	for _, finish := range []bool{false, true} {
		m := newMem(t)
		good, _ := lifeFile(t, m, finish)
		for _, tail := range [][]byte{{0}, make([]byte, 5000), slices.Repeat([]byte{0xa5, 1}, 3000)} {
			putFile(t, m, "MANIFEST-000001", slices.Concat(good, tail))
			s, err := Load(m, dir)
			if err != nil || !s.torn || s.Length != int64(len(good)) || describe(s) != describe(states(t)[len(life())]) {
				t.Errorf("%d bytes %x behind the end: %+v, %v", len(tail), tail[:1], s, err)
			}
		}
	}
}

// TestLoad_EditsThatContradict checks that records with right checksums that do not fit
// together are damage, with their offset.
func TestLoad_EditsThatContradict(t *testing.T) {
	for _, e := range []*Edit{
		{Removed: []Removed{{Level: 3, Num: 99}}},
		{NewLog: 1},
		{SealedLog: &SealedLog{Num: 77}},
		{Added: []Added{{Level: 6, Table: table(7, "n", "o")}}},
		{Added: []Added{{Level: 5, Table: table(7, "n", "o")}}},
	} {
		m := newMem(t)
		l, err := Create(m, dir, 1, states(t)[len(life())])
		mustNil(t, err)
		mustNil(t, writeAll(l.file, l.chain.appendRecord(nil, e.appendTo(nil))))
		mustNil(t, l.Close())
		if s, err := Load(m, dir); !errorIsCorruption(err, "MANIFEST-000001") {
			t.Errorf("after %s: %+v, %v", e, s, err)
		}
	}
}

var errIO = errors.New("input/output error")

// TestLoad_ReadErrorIsNotAnEnd fails each operation of a Load in turn.
func TestLoad_ReadErrorIsNotAnEnd(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, false)
	good := readFile(t, m, "MANIFEST-000001")
	for _, content := range [][]byte{good, good[:len(good)-3]} { // for the second one, Load has to look for later records
		putFile(t, m, "MANIFEST-000001", content)
		count := faultfs.New(m, nil)
		_, err := Load(count, dir)
		mustNil(t, err)
		for k := int64(1); k <= count.Ops(); k++ {
			s, err := Load(faultfs.New(m, faultfs.FailAt(k, errIO)), dir)
			var c *base.CorruptionError
			if err == nil && describe(s) != describe(states(t)[len(life())]) && len(content) == len(good) {
				t.Errorf("operation %d of %d failed: loaded %s", k, count.Ops(), describe(s))
			}
			if err != nil && (!errors.Is(err, errIO) || errors.As(err, &c) || errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("operation %d of %d failed: %v, want the I/O error and neither corruption nor absence", k, count.Ops(), err)
			}
		}
		reads := count.Count(vfs.OpRead)
		for k := int64(1); k <= reads; k++ {
			if s, err := Load(faultfs.New(m, faultfs.FailAt(k, io.EOF, vfs.OpRead)), dir); err == nil {
				t.Errorf("read %d of %d ended early: loaded %s", k, reads, describe(s))
			}
		}
	}
	if n := m.OpenFiles(); n != 0 {
		t.Errorf("%d files are open at the end", n)
	}
}
