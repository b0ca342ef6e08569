package sstable

import (
	"bytes"
	"errors"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// Two tables of one number and of the same lengths have the same file checksum. Their sessions tell
// them apart. A table without a session, of an earlier program, is taken as it is.
func TestOpen_TableOfAnotherSession(t *testing.T) {
	checksums := make(map[uint32]bool)
	for _, tt := range []struct {
		session, want uint64
		fits          bool
	}{
		{5, 5, true}, {5, 0, true}, {0, 5, true}, {0, 0, true}, {5, 6, false}, {1 << 63, 1, false},
	} {
		b, info := writeFile(t, WriterOptions{Session: tt.session}, []entry{{base.NewKey([]byte("k"), 7, base.KindPut), []byte{byte(tt.session)}}})
		if tt.session != 0 {
			checksums[info.Checksum] = true
		}
		r, err := Open(bytes.NewReader(b), ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum, Session: tt.want})
		var damage *base.CorruptionError
		switch {
		case tt.fits && err != nil, !tt.fits && !errors.As(err, &damage):
			t.Errorf("a table of session %d, with %d wanted: %v", tt.session, tt.want, err)
		case err == nil && r.Props().Session != tt.session:
			t.Errorf("the session is %d, want %d", r.Props().Session, tt.session)
		}
	}
	if len(checksums) != 1 {
		t.Errorf("%d file checksums: they tell tables apart now, so sessions need not", len(checksums))
	}
}
