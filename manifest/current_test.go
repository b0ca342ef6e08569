package manifest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

func appendCRC(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// sumLine completes a line of CURRENT with its checksum.
func sumLine(s string) []byte {
	return fmt.Appendf(nil, "%s %08x\n", s, crc32.Checksum([]byte(s), castagnoli))
}

func TestCurrent_RoundTrip(t *testing.T) {
	for _, c := range []current{{manifest: 1, durable: headerSize}, {manifest: 1 << 60, durable: 1<<63 - 1}} {
		b := c.appendTo(nil)
		if got, err := decodeCurrent(b); err != nil || got != c {
			t.Errorf("decodeCurrent(%q) = %+v, %v; want %+v", b, got, err, c)
		}
		if len(b) > maxCurrent {
			t.Errorf("CURRENT of %d bytes, bound %d", len(b), maxCurrent)
		}
	}
}

func TestCurrent_RefusesAllElse(t *testing.T) {
	for _, line := range []string{
		"",
		"shale",
		"shale 1",
		"shale 1 MANIFEST-000012",
		"Shale 1 MANIFEST-000012 348",
		"shale 0 MANIFEST-000012 348",
		"shale -1 MANIFEST-000012 348",
		"shale 1 000012.sst 348",
		"shale 1 CURRENT 348",
		"shale 1 MANIFEST-12 348",
		"shale 1 ../MANIFEST-000012 348",
		"shale 1 MANIFEST-000012\x00 348",
		"shale 1 MANIFEST-000012 35",
		"shale 1 MANIFEST-000012 -348",
		"shale 1 MANIFEST-000012 99999999999999999999",
		"shale 1 MANIFEST-000012 348 more",
		"shale  1 MANIFEST-000012 348",
	} {
		if c, err := decodeCurrent(sumLine(line)); err == nil {
			t.Errorf("decodeCurrent accepts %q as %+v", line, c)
		}
	}
	m := newMem(t)
	putFile(t, m, "CURRENT", []byte(strings.Repeat("x", maxCurrent+1)))
	if _, err := Load(m, dir); !errorIsCorruption(err, "CURRENT") {
		t.Errorf("Load with an overlong CURRENT: %v", err)
	}
}

func TestCurrent_EveryBitCounts(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, false)
	good := readFile(t, m, "CURRENT")
	for i := range good {
		for bit := range 8 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << bit
			putFile(t, m, "CURRENT", bad)
			if s, err := Load(m, dir); !errorIsCorruption(err, "CURRENT") {
				t.Fatalf("bit %d of byte %d flipped: %+v, %v", bit, i, s, err)
			}
		}
	}
	for n := range good {
		putFile(t, m, "CURRENT", good[:n])
		if s, err := Load(m, dir); !errorIsCorruption(err, "CURRENT") {
			t.Fatalf("cut to %d bytes: %+v, %v", n, s, err)
		}
	}
}
