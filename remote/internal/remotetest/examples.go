package remotetest

import (
	"errors"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// ExampleStore is the store of the examples in docs/REMOTE.md.
const ExampleStore = 0x1122334455667788

// ExampleTime is when the examples in docs/REMOTE.md were written.
var ExampleTime = time.UnixMilli(1_700_000_000_000).UTC()

// ExampleTable is the table of the worked examples in docs/REMOTE.md, under a number. The tests of
// the formats and those of the documents use the same one, so that neither can change alone.
func ExampleTable(num base.FileNum) *manifest.Table {
	return &manifest.Table{
		Num: num, Size: 4096, Checksum: 0xdeadbeef, Smallest: []byte("a"), Largest: []byte("b"), MinSeq: 1, MaxSeq: 6,
		Entries: 5, Keys: 5, RawKeyBytes: 10, RawValueBytes: 50, FilterBytes: 192, FilterBits: 9.5,
	}
}

// MustBeDamage checks that an error is one that decoders may return for bytes of an object.
// A decoder that names another object would send people to the wrong place.
func MustBeDamage(t *testing.T, name string, err error) {
	t.Helper()
	var c *base.CorruptionError
	if !errors.As(err, &c) && !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("%s: error %v is neither damage nor a newer format", name, err)
	}
	if errors.As(err, &c) && c.File != name {
		t.Errorf("error %v names %s, want %s", err, c.File, name)
	}
}
