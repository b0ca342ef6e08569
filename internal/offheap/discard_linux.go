package offheap

import "syscall"

func discard(b []byte) []byte {
	if syscall.Madvise(b, syscall.MADV_DONTNEED) != nil {
		return drop(b)
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
