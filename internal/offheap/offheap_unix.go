//go:build (darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !race

package offheap

import "syscall"

// maps says that Alloc maps memory on this platform.
const maps = true

func alloc(n int) []byte {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]byte, n) // a short address space or a limit: the heap may still have room
	}
	mapped.add(b)
	return b
}

func free(b []byte) {
	if !mapped.remove(b) {
		return
	}
	if err := syscall.Munmap(b); err != nil {
		discard(b) // the process has too many mappings to split one: the memory goes, the addresses stay
	}
}
