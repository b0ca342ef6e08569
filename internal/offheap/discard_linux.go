//go:build !race

package offheap

import "syscall"

// dontneedLocked is MADV_DONTNEED_LOCKED, which Linux has since 5.18.
// It also applies to pages that mlock or mlockall holds in memory.
const dontneedLocked = 24

func discard(b []byte) []byte {
	if syscall.Madvise(b, syscall.MADV_DONTNEED) != nil && syscall.Madvise(b, dontneedLocked) != nil {
		clear(b) // locked pages and an older kernel: the memory stays taken until the next Retake uses it
	}
	return b
}

// Huge asks for huge pages for b if b is large enough for one. Lookups at
// random places of b then miss the processor's page tables less often.
func Huge(b []byte) {
	if len(b) >= 2<<20 {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) // a hint
	}
}
