package damage

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// edit is a damage that changes the bytes of one file.
func (b *badStore) edit(file string, c change) damage {
	return damage{what: c.what, file: file, apply: func(mem *vfs.Mem) error {
		return writeFile(mem, file, string(c.to([]byte(b.files[file]))))
	}}
}

func (b *badStore) flip(file string, offset int, mask byte) damage {
	d := b.edit(file, flipped(offset, mask))
	d.flip, d.oneBit = true, mask&(mask-1) == 0
	d.asUnwritten = file == b.log && b.files[file][offset] == mask && b.unwrittenAround(offset)
	return d
}

// unwrittenAround says whether a zero at the offset of the last log would be as a torn write leaves it: with the zeros
// next to it, it reaches to the end of its sector or of its record, or is as long as a word, or it lies with nothing but
// zeros between the beginning of the record and its first whole word. docs/FORMAT.md, "Rot at the end of a log", has the rule.
func (b *badStore) unwrittenAround(offset int) bool {
	log := b.files[b.log]
	from, to := offset&^511, min(offset|511+1, len(log))
	begin := 0
	for _, at := range b.ends {
		if at > offset {
			to = min(to, at)
		} else {
			begin = max(begin, at)
		}
	}
	i, j := offset, offset+1
	for i > max(from, begin) && log[i-1] == 0 {
		i--
	}
	for j < to && log[j] == 0 {
		j++
	}
	return j == to || j-i >= 8 || i == begin && offset < (begin+7)&^7
}

func (b *badStore) remove(file string) damage {
	return damage{what: "removed", file: file, apply: removed(file)}
}

func (b *badStore) swap(file, other string) damage {
	return damage{what: "swapped with " + other, file: file, other: other, apply: swapped(b.files, file, other)}
}

// foreign puts a file of another store in place of one.
func (b *badStore) foreign(file string, other *badStore, from string) damage {
	d := b.edit(file, replacedBy(from, other.files))
	d.foreign = true
	return d
}

// twin puts a table, or a filter, of a store in its place that differs only in
// being another store.
func (b *badStore) twin(file string, other *badStore) damage {
	d := b.foreign(file, other, file)
	d.rare = true
	return d
}

// damages returns what a sweep does to the store: each byte flipped, each
// truncation, each stretch of 16, 512 and 4096 bytes zeroed, and whole files
// made longer, removed, swapped, and replaced by those of another store. Tables
// and filters also by those of kin, a store of the same identity with another
// history: their checksums tell; of a log that is not sealed nothing could.
func (b *badStore) damages(r *rand.Rand, other, kin, twin *badStore) []damage {
	var all []damage
	names := slices.Sorted(maps.Keys(b.files))
	for _, file := range names {
		size := len(strings.TrimRight(b.files[file], "\x00")) // without what a log reserves
		for at := range size {
			all = append(all, b.flip(file, at, []byte{0x01, 0x80, 0xff, byte(1 + r.IntN(255))}[r.IntN(4)]), b.edit(file, cut(at)))
		}
		for _, n := range []int{16, 512, 4096} {
			for at := 0; at < size; at += n {
				all = append(all, b.edit(file, zeroed(at, n)))
			}
		}
		for _, n := range []int{1, 512, 4096} {
			all = append(all, b.edit(file, longer(n, 0)), b.edit(file, longer(n, 0xa5)))
		}
		for i := range size / 512 {
			all = append(all, b.edit(file, misdirected(i, r.IntN(size/512))))
		}
		all = append(all, b.remove(file))
		for _, to := range names {
			all = append(all, b.swap(file, to))
		}
		for _, from := range slices.Sorted(maps.Keys(other.files)) {
			if path.Ext(from) == path.Ext(file) {
				all = append(all, b.foreign(file, other, from))
			}
		}
		for _, from := range slices.Sorted(maps.Keys(kin.files)) {
			if isTableOrFilter(file) && path.Ext(from) == path.Ext(file) {
				all = append(all, b.foreign(file, kin, from))
			}
		}
		if isTableOrFilter(file) && len(twin.files[file]) == len(b.files[file]) {
			all = append(all, b.twin(file, twin))
		}
	}
	return all
}

// Every file of a store is damaged in every way that comes to mind. Each
// answer is right or an error that names file and offset; nothing panics,
// hangs, or goes by unnoticed that matters; and a failed shale.Open changes nothing.
func TestCorruption_Sweep(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	begin := time.Now()
	outcomes, tried := make(map[string]int), 0
	share := testenv.ShareOf(t, seed, 1./240)
	for round := uint64(0); (round == 0 || time.Since(begin) < long) && !t.Failed(); round++ {
		other, kin := newBadStoreOf(t, 76, seed+round+1, closed), newBadStore(t, seed+round+1, closed)
		twin := newBadStoreOf(t, 78, seed+round, closed)
		for end := range numEnds {
			b := newBadStore(t, seed+round, end)
			var cases []damage
			for i, d := range b.damages(rand.New(rand.NewPCG(seed, round)), other, kin, twin) {
				if d.rare || share.Takes(round<<32|uint64(end)<<28|uint64(i)) {
					cases = append(cases, d)
				}
			}
			tried += len(cases)
			var mu sync.Mutex
			testenv.Sweep(t, cases, func(i int, d damage) error {
				outcome, err := b.try(t, d, i)
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
				return err
			})
		}
	}
	t.Logf("%d damages: %v in %v; %v", tried, outcomes, time.Since(begin).Round(time.Millisecond), share)
}
