package data

// apart is a distance at which no two processors disturb each other: two cache
// lines, since they are fetched in pairs.
const apart = 128

// Apart allocates a T that shares no cache line with anything else, for what
// one goroutine changes all the time. Without it, whether two goroutines slow
// each other down is up to the allocator.
func Apart[T any]() *T {
	p := new(struct {
		_ [apart]byte
		v T
		_ [apart]byte
	})
	return &p.v
}

// BytesApart does so for bytes.
func BytesApart(size int) []byte { return make([]byte, size+2*apart)[apart : apart+size : apart+size] }
