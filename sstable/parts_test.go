package sstable

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// partsOf returns the parts of a file. It checks that they cover the file from its beginning
// to its end.
func partsOf(t *testing.T, what string, b []byte, o SalvageOptions) (list []Part) {
	t.Helper()
	o.Num, o.StoreID = testNum, testStore
	end := int64(0)
	err := Parts(context.Background(), bytes.NewReader(b), int64(len(b)), o, func(p Part) error {
		if p.Offset != end || p.Bytes <= 0 && p.Err == nil {
			t.Fatalf("%s: %s at %d with %d bytes, the one before ends at %d", what, p.Name, p.Offset, p.Bytes, end)
		}
		end = p.Offset + p.Bytes
		list = append(list, p)
		return nil
	})
	if err != nil || end != int64(len(b)) {
		t.Fatalf("%s: parts end at %d of %d, %v", what, end, len(b), err)
	}
	return list
}

// TestParts checks that a flipped byte is reported in the part that contains it. The footer
// is an exception: without it, everything behind the data blocks is one part.
func TestParts(t *testing.T) {
	testenv.SkipRace(t)
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	list := damageEntries()
	flips := 0
	for name, o := range damageTables(t) {
		b, info := writeFile(t, o, list)
		entries, partitions := 0, uint64(0)
		for _, p := range partsOf(t, name, b, SalvageOptions{}) {
			if p.Err != nil {
				t.Fatalf("%s: %s: %v", name, p.Name, p.Err)
			}
			switch p.Kind {
			case BlockData:
				entries += p.Entries
				if p.First == nil || p.Separator == nil || bytes.Compare(p.First.UserKey, p.Separator.UserKey) > 0 {
					t.Fatalf("%s: block from %v to %v", name, p.First, p.Separator)
				}
			case BlockIndexPartition:
				partitions++
			}
		}
		if entries != len(list) || partitions != info.Partitions {
			t.Fatalf("%s: %d entries, %d partitions; want %d, %d", name, entries, partitions, len(list), info.Partitions)
		}
		for at := rng.IntN(7); at < len(b); at += 1 + rng.IntN(7) {
			bit := byte(1) << rng.IntN(8)
			b[at] ^= bit
			found := false
			for _, p := range partsOf(t, name, b, SalvageOptions{}) {
				if p.Err == nil {
					continue
				}
				found = true
				if in := p.Offset <= int64(at) && int64(at) < p.Offset+p.Bytes; !in && p.Name != "unreadable" {
					t.Fatalf("%s: byte %d is not in %s at %d with %d bytes: %v", name, at, p.Name, p.Offset, p.Bytes, p.Err)
				}
			}
			b[at] ^= bit
			if !found {
				t.Fatalf("%s: a flip of byte %d of %d is not found", name, at, len(b))
			}
			flips++
		}
		for _, n := range []int{0, 1, 20, footerSize, len(b) / 2, len(b) - 1} {
			if cut := partsOf(t, name, b[:n], SalvageOptions{Size: info.Size}); n > 0 && cut[len(cut)-1].Err == nil {
				t.Fatalf("%s: nothing is wrong with the first %d bytes", name, n)
			}
		}
		longer := partsOf(t, name, append(bytes.Clone(b), 1, 2, 3), SalvageOptions{Size: info.Size})
		if last := longer[len(longer)-1]; last.Err == nil || last.Bytes != 3 {
			t.Fatalf("%s: 3 more bytes: %+v", name, last)
		}
	}
	t.Logf("%d flips", flips)
}
