//go:build race

package offheap

const maps = false

func alloc(n int) []byte { return make([]byte, n) }

// freed is the pattern that free overwrites memory with.
var freed = func() (page [4096]byte) {
	for i := range page {
		page[i] = 0xdb
	}
	return page
}()

func free(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, freed[:]):]
	}
}
