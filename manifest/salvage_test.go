package manifest

import (
	"errors"
	"hash/crc32"
	"io/fs"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// sumOf returns a short stand-in for the description of a state.
func sumOf(s *State) uint32 { return crc32.ChecksumIEEE([]byte(describe(s))) }

// writeCounted writes life as a store does, with the next file number in each edit, as
// manifest num of a store. It returns what Salvage may return: the state after each number of
// edits.
func writeCounted(t testing.TB, m *vfs.Mem, num base.FileNum, finish bool) (after []uint32) {
	t.Helper()
	state := &State{StoreID: 1, NextFileNum: 999, LastSeq: 999, MinLog: 1, Version: new(Version)}
	var err error
	tables := new(Edit) // so many that the snapshot takes several records
	for n := base.FileNum(40); n < 40+tablesAnEdit+10; n++ {
		id := string([]byte{byte(n >> 8), byte(n)})
		tables.Added = append(tables.Added, Added{Level: 5, Table: table(n, id, id)})
	}
	state.Version, err = state.Version.Apply(tables)
	mustNil(t, err)
	l, err := Create(m, dir, num, state)
	mustNil(t, err)
	after = append(after, sumOf(state))
	for i, e := range life() {
		e.NextFileNum = max(e.NextFileNum, 1000+base.FileNum(i))
		v, err := state.Version.Apply(e)
		mustNil(t, err)
		state, err = state.Apply(e, v)
		mustNil(t, err)
		mustNil(t, l.Append(e, true))
		after = append(after, sumOf(state))
	}
	if finish {
		mustNil(t, l.Finish())
	}
	mustNil(t, l.Close())
	return after
}

// TestSalvage_FlipsAndCuts damages a manifest in many ways. Salvage returns a state that the
// store once had: the newest one before the damage.
func TestSalvage_FlipsAndCuts(t *testing.T) {
	for _, finish := range []bool{false, true} {
		m := newMem(t)
		after := writeCounted(t, m, 9, finish)
		name := base.ManifestName(9)
		good := readFile(t, m, name)
		var ends []int // where the records end
		_, err := ReadEdits(m, dir, 9, func(offset int64, _ *Edit) error {
			ends = append(ends, int(offset))
			return nil
		})
		mustNil(t, err)
		ends = append(ends[1:], len(good))
		snapshot := len(ends) - len(life())
		check := func(what string, at int, bad []byte) {
			t.Helper()
			putFile(t, m, name, bad)
			whole, _ := slices.BinarySearch(ends, at+1) // records
			s, err := Salvage(m, dir)
			mustNil(t, err)
			least := snapshot // number of records that show that the snapshot is whole
			if finish {
				least++
			}
			if whole < least {
				if s.State != nil || s.Whole || len(s.Damage) == 0 {
					t.Fatalf("%s %d: a part of a snapshot is taken for a state: %+v", what, at, s)
				}
				return
			}
			if got := sumOf(s.State); got != after[whole-snapshot] || s.Edits != whole {
				t.Fatalf("%s %d: %d edits, state %x, want %d, %x", what, at, s.Edits, got, whole, after[whole-snapshot])
			}
			_, err = Load(m, dir)
			if s.Whole != (err == nil) || s.Whole != (len(s.Damage) == 0) {
				t.Fatalf("%s %d: whole %v, damage %v; Load: %v", what, at, s.Whole, s.Damage, err)
			}
			for _, d := range s.Damage {
				if !errorIsCorruption(d, name) {
					t.Errorf("%s %d: damage %v", what, at, d)
				}
			}
		}
		check("whole", len(good), good)
		for at := 0; at < len(good); at += 1 + at/50*20 {
			bad := slices.Clone(good)
			bad[at] ^= 1 << (at % 8)
			check("flipped", at, bad)
			check("cut", at, good[:at])
		}
		for at := ends[snapshot-1] - 20; at < len(good); at += 7 {
			bad := slices.Clone(good)
			bad[at] ^= 0x10
			check("flipped", at, bad)
			check("cut", at, good[:at])
		}
	}
}

// TestSalvage_WithoutCurrent checks that without CURRENT Salvage takes the newest manifest
// whose snapshot is known to be whole. One that was being written may have a part of its
// snapshot.
func TestSalvage_WithoutCurrent(t *testing.T) {
	m := newMem(t)
	old := writeCounted(t, m, 9, true)
	writeCounted(t, m, 12, false)
	newer := readFile(t, m, base.ManifestName(12))
	mustNil(t, m.Remove(dir+"/CURRENT"))
	putFile(t, m, base.TableName(40), nil)
	salvage := func() *Salvaged {
		s, err := Salvage(m, dir)
		mustNil(t, err)
		if s.Whole || len(s.Damage) == 0 || !errorIsCorruption(s.Damage[0], base.CurrentName) {
			t.Errorf("without CURRENT: whole %v, damage %v", s.Whole, s.Damage)
		}
		return s
	}
	if s := salvage(); s.State == nil || s.State.ManifestNum != 12 {
		t.Errorf("both manifests are whole: %+v", s)
	}
	for _, n := range []int{0, headerSize, headerSize + 30, len(newer) / 2} {
		putFile(t, m, base.ManifestName(12), newer[:n])
		if s := salvage(); s.State == nil || s.State.ManifestNum != 9 || sumOf(s.State) != old[len(old)-1] {
			t.Errorf("the newer one has %d bytes: %+v", n, s)
		}
	}
	putFile(t, m, base.CurrentName, []byte("shale 1 MANIFEST-000012 9 00000000\n"))
	if s := salvage(); s.State == nil || s.State.ManifestNum != 9 || s.StoreID != 1 {
		t.Errorf("CURRENT is damaged: %+v", s)
	}
	mustNil(t, m.Remove(dir+"/"+base.ManifestName(9)))
	mustNil(t, m.Remove(dir+"/"+base.ManifestName(12)))
	if s := salvage(); s.State != nil || s.StoreID != 0 {
		t.Errorf("no manifest: %+v", s)
	}
	if s, err := Salvage(newMem(t), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %+v, %v", s, err)
	}
}

// TestSalvage_LengthOfAnotherManifest writes every length to CURRENT. A length within a
// record belongs to another manifest. This one is then used as if CURRENT stated no length.
func TestSalvage_LengthOfAnotherManifest(t *testing.T) {
	for _, finish := range []bool{false, true} {
		m := newMem(t)
		good, offsets := lifeFile(t, m, finish)
		for length := int64(headerSize); length <= int64(len(good)); length++ {
			_, err := writeCurrent(m, dir, current{manifest: 1, durable: length})
			mustNil(t, err)
			_, end := slices.BinarySearch(offsets, length)
			_, err = Load(m, dir)
			if end != (err == nil) || err != nil && !errorIsCorruption(err, "MANIFEST-000001") {
				t.Errorf("length %d, a record's end: %v; Load: %v", length, end, err)
			}
			s, err := Salvage(m, dir)
			mustNil(t, err)
			if s.Whole != end || s.Whole != (len(s.Damage) == 0) || !end && !errorIsCorruption(s.Damage[0], "MANIFEST-000001") {
				t.Errorf("length %d, a record's end: %v; Salvage: whole %v, %v", length, end, s.Whole, s.Damage)
			}
			if s.State == nil || describe(s.State) != describe(states(t)[len(life())]) {
				t.Errorf("length %d: the state is not the manifest's", length)
			}
		}
	}
}
