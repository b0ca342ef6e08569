//go:build !linux

package offheap

func discard(b []byte) []byte { return drop(b) }

// Huge asks for huge pages for b, where the platform knows them.
func Huge([]byte) {}
