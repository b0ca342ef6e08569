package shale

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

// edit is a damage that changes the bytes of one file.
func (b *badStore) edit(file, what string, change func(data []byte) []byte) damage {
	data := change([]byte(b.files[file]))
	return damage{what: what, file: file, bytes: data, apply: func(mem *vfs.Mem) error {
		return writeFile(mem, b.path(file), data)
	}}
}

func writeFile(mem *vfs.Mem, name string, data []byte) error {
	f, err := mem.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Close()
}

func (b *badStore) flip(file string, offset int, mask byte) damage {
	return b.edit(file, fmt.Sprintf("byte %d xor %#x", offset, mask), func(data []byte) []byte {
		data[offset] ^= mask
		return data
	})
}

func (b *badStore) zero(file string, offset, n int) damage {
	return b.edit(file, fmt.Sprintf("%d zeros at %d", n, offset), func(data []byte) []byte {
		clear(data[min(offset, len(data)):min(offset+n, len(data))])
		return data
	})
}

func (b *badStore) cut(file string, size int) damage {
	return b.edit(file, fmt.Sprintf("cut to %d", size), func(data []byte) []byte { return data[:size] })
}

func (b *badStore) longer(file string, fill byte, n int) damage {
	return b.edit(file, fmt.Sprintf("longer by %d times %#x", n, fill), func(data []byte) []byte {
		return append(data, strings.Repeat(string([]byte{fill}), n)...)
	})
}

func (b *badStore) remove(file string) damage {
	return damage{what: "removed", file: file, apply: func(mem *vfs.Mem) error { return mem.Remove(b.path(file)) }}
}

// swap gives two files each other's bytes, as a copy by hand might.
func (b *badStore) swap(file, other string) damage {
	return damage{what: "swapped with " + other, file: file, other: other, apply: func(mem *vfs.Mem) error {
		if err := writeFile(mem, b.path(file), []byte(b.files[other])); err != nil {
			return err
		}
		return writeFile(mem, b.path(other), []byte(b.files[file]))
	}}
}

// misdirect swaps two sectors of a file.
func (b *badStore) misdirect(file string, i, j int) damage {
	return b.edit(file, fmt.Sprintf("sectors %d and %d swapped", i, j), func(data []byte) []byte {
		x, y := data[i*512:(i+1)*512], data[j*512:(j+1)*512]
		for k := range x {
			x[k], y[k] = y[k], x[k]
		}
		return data
	})
}

// damages returns what a sweep does to the store. most is how many bytes of a
// file are flipped, about; in tables, which are many, fewer.
func (b *badStore) damages(r *rand.Rand, most int) []damage {
	var all []damage
	names := make([]string, 0, len(b.files))
	for name := range b.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, file := range names {
		size := len(strings.TrimRight(b.files[file], "\x00"))
		flips := most
		if path.Ext(file) == ".sst" {
			flips /= 6
		}
		each := max(1, size/flips)
		for at := r.IntN(each); at < size; at += 1 + r.IntN(2*each-1) {
			all = append(all, b.flip(file, at, []byte{0x01, 0x80, 0xff, byte(1 + r.IntN(255))}[r.IntN(4)]))
		}
		for at := 0; at < size; at += 512 * (1 + r.IntN(1+size/512*8/flips)) {
			all = append(all, b.zero(file, at, 512), b.zero(file, at+r.IntN(512)&^15, 16))
		}
		for _, n := range []int{0, 1, 512, size / 2, size - 1, r.IntN(size), r.IntN(size)} {
			all = append(all, b.cut(file, min(n, size)))
		}
		for _, n := range []int{1, 512, 4096} {
			all = append(all, b.longer(file, 0, n), b.longer(file, 0xa5, n))
		}
		if sectors := size / 512; sectors > 1 {
			all = append(all, b.misdirect(file, r.IntN(sectors), r.IntN(sectors)))
		}
		all = append(all, b.remove(file))
		other := names[r.IntN(len(names))]
		all = append(all, b.swap(file, other))
	}
	return all
}

// Every file of a store is damaged in every way that comes to mind. Each
// answer is right or an error that names the file; nothing panics, hangs, or
// goes by unnoticed that matters; and a failed Open changes nothing.
func TestCorruption_Sweep(t *testing.T) {
	checkLeaks(t)
	seed := seedOf(t)
	most := 200
	if testing.Short() {
		most = 60
	}
	long := longRun(t)
	if long > 0 {
		most = 2000
	}
	begin := time.Now()
	outcomes := make(map[string]int)
	for round := uint64(0); round == 0 || time.Since(begin) < long; round++ {
		for _, clean := range []bool{true, false} {
			b := newBadStore(t, seed+round, clean)
			b.sweep(t, b.damages(rand.New(rand.NewPCG(seed, round)), most), outcomes)
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%v in %v", outcomes, time.Since(begin).Round(time.Millisecond))
}

// sweep tries all damages, two at a time.
func (b *badStore) sweep(t *testing.T, all []damage, outcomes map[string]int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, failed := 0, 0
	for range 2 {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= len(all) || failed > 5
				mu.Unlock()
				if stop {
					return
				}
				d := all[i]
				what := fmt.Sprintf("store closed %v, damage %d, %s: %s", b.clean, i, d.file, d.what)
				hangs := time.AfterFunc(30*time.Second, func() {
					buf := make([]byte, 1<<20)
					panic(fmt.Sprintf("%s hangs:\n%s", what, buf[:runtime.Stack(buf, true)]))
				})
				outcome, err := b.try(t, d, i)
				hangs.Stop()
				mu.Lock()
				outcomes[outcome]++
				if err != nil {
					failed++
					t.Errorf("%s: %v", what, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// A damage that was found once can be found again.
func TestBadStore_TheSameEachTime(t *testing.T) {
	for _, clean := range []bool{true, false} {
		a, b := newBadStore(t, 5, clean), newBadStore(t, 5, clean)
		if !maps.Equal(a.files, b.files) {
			t.Errorf("closed %v: the files differ: %v, %v", clean, slices.Sorted(maps.Keys(a.files)), slices.Sorted(maps.Keys(b.files)))
		}
	}
}
