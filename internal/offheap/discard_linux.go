//go:build !race

package offheap

import "syscall"

// dontneedLocked is MADV_DONTNEED_LOCKED of Linux 5.18, which also takes pages
// that mlock or mlockall holds in memory.
const dontneedLocked = 24

func discard(b []byte) []byte {
	if syscall.Madvise(b, syscall.MADV_DONTNEED) != nil && syscall.Madvise(b, dontneedLocked) != nil {
		clear(b) // locked, and an older kernel: the memory stays taken, to be used by the next Retake
	}
	return b
}

// Huge asks for huge pages for b, where that is worth it: lookups all over b
// then miss the processor's page tables less often.
func Huge(b []byte) {
	if len(b) >= 2<<20 {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) // a hint
	}
}
