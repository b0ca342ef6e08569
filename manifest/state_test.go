package manifest

import (
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A snapshot says up to where tables have all writes if that is the last number, and says nothing otherwise.
func TestState_SnapshotSaysWhatIsFlushed(t *testing.T) {
	for _, c := range []struct{ flushed, last, want uint64 }{{9, 9, 9}, {8, 9, 0}, {0, 9, 0}, {0, 0, 0}} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("d"); err != nil {
			t.Fatal(err)
		}
		s := &State{Version: new(Version), StoreID: 1, NextFileNum: 7, MinLog: 3}
		s.Flushed, s.LastSeq = base.Seq(c.flushed), base.Seq(c.last)
		l, err := Create(fs, "d", 7, s)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := Load(fs, "d")
		if err != nil {
			t.Fatal(err)
		}
		if uint64(got.Flushed) != c.want || got.LastSeq != s.LastSeq || got.MinLog != 3 {
			t.Errorf("all writes up to %d of %d are in tables: read %d of %d", c.flushed, c.last, got.Flushed, got.LastSeq)
		}
	}
}
