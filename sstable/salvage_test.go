package sstable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// salvage walks a damaged table and checks what a Salvager promises. Entries that it shows
// are those that were written, in order. Entries that it does not show were reported as lost
// before a later entry was shown. It returns how many entries were shown.
func salvage(t *testing.T, what string, b []byte, o SalvageOptions, list []entry) (shown int, lost []Lost) {
	t.Helper()
	o.Num, o.StoreID = testNum, testStore
	o.Lost = func(l Lost) {
		checkDamage(t, what, l.Err, max(int64(len(b)), o.Size))
		lost = append(lost, l)
	}
	s, err := Salvage(context.Background(), bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatalf("%s: Salvage: %v", what, err)
	}
	defer s.Close()
	next, last := 0, -1 // indexes of list; last: of the last entry that was shown
	missing := func(e entry) {
		for _, l := range lost {
			if l.Entries && (l.Upto == nil || bytes.Compare(e.key.UserKey, l.Upto) <= 0) && behind(e, l.After, list, last) {
				return
			}
		}
		t.Fatalf("%s: %v is missing without a word; lost: %+v", what, e, lost)
	}
	for kv := s.First(); kv != nil; kv = s.Next() {
		for ; next < len(list) && !sameEntry(kv, list[next]); next++ {
			missing(list[next])
		}
		if next == len(list) {
			t.Fatalf("%s: %v = %q was never written there", what, kv.InternalKey, kv.Value)
		}
		last = next
		next++
		shown++
		if n := len(lost); n > 0 && lost[n-1].Entries && lost[n-1].Upto == nil {
			t.Fatalf("%s: %v is shown after all up to the end was reported as lost: %+v", what, kv.InternalKey, lost[n-1])
		}
	}
	for ; next < len(list); next++ {
		missing(list[next])
	}
	if err := s.Err(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if _, entries := s.Counts(); int(entries) != shown {
		t.Errorf("%s: Counts has %d entries, %d were shown", what, entries, shown)
	}
	return shown, lost
}

// behind reports whether e, which was not shown, comes after those of key's entries that were
// shown. last is the index of the last of these.
func behind(e entry, key []byte, list []entry, last int) bool {
	c := 1
	if key != nil {
		c = bytes.Compare(e.key.UserKey, key)
	}
	return c > 0 || c == 0 && last >= 0 && base.Compare(list[last].key, e.key) < 0
}

// knowledge returns the options of a caller that knows what the manifest says about the
// table, and of one that does not.
func knowledge(info Info) map[string]SalvageOptions {
	return map[string]SalvageOptions{
		"known":   {Size: info.Size, Checksum: info.Checksum, Entries: info.Entries, Filter: true},
		"unknown": {},
	}
}

// TestSalvage_CutsAndHoles cuts a table, or overwrites several stretches of it with zeros.
func TestSalvage_CutsAndHoles(t *testing.T) {
	testenv.SkipRace(t)
	list := damageEntries()
	rng := rand.New(rand.NewPCG(7, 8))
	for name, o := range damageTables(t) {
		b, info := writeFile(t, o, list)
		for knows, so := range knowledge(info) {
			for n := 0; n < len(b); n += 1 + rng.IntN(8) {
				salvage(t, fmt.Sprintf("%s, %s: cut to %d", name, knows, n), b[:n], so, list)
			}
			salvage(t, name+": longer", append(bytes.Clone(b), 1, 2, 3), so, list)
			for range 100 {
				bad := bytes.Clone(b)
				for range 1 + rng.IntN(3) {
					at := rng.IntN(len(b))
					clear(bad[at:min(at+1+rng.IntN(300), len(b))])
				}
				salvage(t, name+": zeros", bad, so, list)
			}
		}
	}
}

// TestSalvage_AnotherTable checks that a table of another number, store or content yields
// nothing.
func TestSalvage_AnotherTable(t *testing.T) {
	list := damageEntries()
	for name, change := range map[string]func(o *WriterOptions){
		"number":  func(o *WriterOptions) { o.Num = testNum + 1 },
		"store":   func(o *WriterOptions) { o.StoreID = testStore + 1 },
		"content": func(o *WriterOptions) { o.BlockSize = 300 },
	} {
		o := WriterOptions{Num: testNum, StoreID: testStore, BlockSize: 200, FilterBits: 10}
		_, info := writeFile(t, o, list)
		change(&o)
		b, _ := writeFile(t, o, list)
		for _, so := range []SalvageOptions{{Checksum: info.Checksum, Entries: info.Entries}, {Size: int64(len(b)), Checksum: info.Checksum}} {
			for _, data := range [][]byte{b, b[:len(b)-1]} {
				if name == "content" && len(data) < len(b) {
					continue // then only the manifest's checksum could show it
				}
				if shown, lost := salvage(t, name, data, so, list); shown > 0 || len(lost) == 0 {
					t.Errorf("another %s: %d entries of it were shown, lost %v", name, shown, lost)
				}
			}
		}
	}
}

// TestSalvage_Errors checks that errors which are not damage end the walk.
func TestSalvage_Errors(t *testing.T) {
	list := damageEntries()
	b, info := writeFile(t, WriterOptions{BlockSize: 200, FilterBits: 10}, list)
	o := SalvageOptions{Num: testNum, StoreID: testStore, Size: info.Size}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Salvage(ctx, bytes.NewReader(b), info.Size, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.First() == nil {
		t.Fatal("no entry")
	}
	cancel()
	for s.Next() != nil {
	}
	if !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("Err() = %v, want context.Canceled", s.Err())
	}
	reads := 0
	for ; ; reads++ {
		s, err := Salvage(context.Background(), &failingReader{b: b, left: reads, err: errDevice}, info.Size, o)
		if err == nil {
			for kv := s.First(); kv != nil; kv = s.Next() {
			}
			err = errors.Join(s.Err(), s.Close())
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errDevice) {
			t.Fatalf("read %d fails: %v, want %v", reads, err, errDevice)
		}
	}
	if reads < 5 {
		t.Errorf("only %d reads", reads)
	}
	foot := b[len(b)-footerSize:]
	binary.LittleEndian.PutUint32(foot[96:], formatVersion+1)
	binary.LittleEndian.PutUint32(foot[footerChecksum:], footerCRC(foot))
	if _, err := Salvage(context.Background(), bytes.NewReader(b), info.Size, o); !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("Salvage of a newer table: %v, want ErrFormatTooNew", err)
	}
}

// TestSalvage_TooManyChecksums salvages a file whose checksums say at every fifth byte that a
// block could end there. The file must not be read as often.
func TestSalvage_TooManyChecksums(t *testing.T) {
	const size = 100_000
	crc := extendChecksum(extendChecksum(checksumSeed(testStore, testNum), uint64(BlockData), 1), 0, 8)
	var b []byte
	for len(b) < size {
		crc = extendChecksum(crc, uint64(noCompression), 1)
		b = append(b, byte(noCompression))
		b = binary.LittleEndian.AppendUint32(b, crc)
		crc = extendChecksum(crc, uint64(crc), 4)
	}
	passLimit.Check(t, len(b), func() { salvageTable(t, b) })
	lost := 0
	s, err := Salvage(context.Background(), bytes.NewReader(b), int64(len(b)), SalvageOptions{Num: testNum, StoreID: testStore,
		Lost: func(l Lost) {
			if l.Entries {
				lost++
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if kv := s.First(); kv != nil || s.Err() != nil || lost != 1 {
		t.Errorf("First() = %v, %v; %d losses, want one", kv, s.Err(), lost)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
