package testenv

import (
	"encoding/binary"
	"testing"
)

// BigEndian reports whether this machine has the other byte order than filters have in their serialized
// form. Then an opened filter is a copy.
var BigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// NeedsReference skips a test that compares a hash with spaolacci/murmur3, where that module is wrong:
// it reads words in the machine's byte order. The tests of locked hashes run there too.
func NeedsReference(t testing.TB) {
	t.Helper()
	if BigEndian {
		t.Skip("spaolacci/murmur3 is wrong on big-endian machines")
	}
}
