//go:build linux || darwin

package lines

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns size bytes that end where memory begins that nobody may read. A load past the end
// kills the test.
func guarded(t *testing.T, size int) []byte {
	t.Helper()
	page := os.Getpagesize()
	usable := (size + page - 1) / page * page
	// Pages in front of the bytes, too, may not be read.
	all, err := syscall.Mmap(-1, 0, usable+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, closed := range [][]byte{all[:page], all[page+usable:]} {
		if err := syscall.Mprotect(closed, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	end := page + usable
	return all[end-size : end : end]
}

// guardedAs is guarded for n values of another type.
func guardedAs[T any](t *testing.T, n int) []T {
	t.Helper()
	var one T
	b := guarded(t, n*int(unsafe.Sizeof(one)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// No kernel reads or writes past the end of the lines, of the hashes or of the answers.
func TestGuardPages(t *testing.T) {
	page := os.Getpagesize()
	for _, n := range []uint64{1, 2, 5, uint64(page / Bytes), uint64(page/Bytes) + 1} {
		lines := guarded(t, int(n)*Bytes)
		blocks := guardedAs[Block](t, int(n))
		words := guardedAs[uint64](t, int(n)*lineWords)
		for i := range words {
			words[i] = 1<<64 - 1
		}
		for _, count := range []int{1, 2, 15, 16, 17, 31, 63, 64, 65, 130} {
			hashes, out := guardedAs[uint64](t, count), guardedAs[bool](t, count)
			copy(hashes, randomHashes(uint64(count), count))
			hashes[0], hashes[count/2], hashes[count-1] = 0, 1<<63, 1<<64-1 // the first line and the last
			for _, kernel := range kernels() {
				what := fmt.Sprintf("%s: %d lines, %d hashes", kernel.name, n, count)
				for _, k := range []uint32{3, 7, 8, 14} {
					kernel.addMany(lines, n, k, hashes)
					kernel.hasMany(lines, n, k, hashes, out)
					kernel.has(&Units{First: Unit{lines, n, k}}, hashes[count-1])
					allTrue(t, what, out)
				}
				kernel.atomic(words, hashes, out)
				allTrue(t, what+", atomic", out)
				kernel.splitAddMany(blocks, hashes)
				kernel.splitHasMany(blocks, hashes, out)
				kernel.splitAdd(blocks, hashes[count-1])
				kernel.splitHas(blocks, hashes[count-1])
				allTrue(t, what+", split", out)
			}
		}
	}
}

func allTrue(t *testing.T, what string, out []bool) {
	t.Helper()
	for i, maybe := range out {
		if !maybe {
			t.Fatalf("%s: hash %d was added and is denied", what, i)
		}
		out[i] = false
	}
}
