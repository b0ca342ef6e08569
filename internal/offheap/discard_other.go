//go:build !linux || race

package offheap

func discard(b []byte) []byte {
	free(b)
	return nil
}

// Huge asks for huge pages for b. On this platform it does nothing.
func Huge([]byte) {}
