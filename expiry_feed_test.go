package shale

import (
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A feed reads the keys of an ingestion from the store. One that was put since, to expire, comes with its time.
func TestTTL_FeedOfAnIngestion(t *testing.T) {
	db := openTest(t, feedOptions(vfs.NewMem()))
	if err := db.Ingest(t.Context(), sortedKeys(0, 2, "i")); err != nil {
		t.Fatal(err)
	}
	mustPutTTL(t, db, "k000001", "newer", time.Hour)
	want, err := db.ExpiresAt([]byte("k000001"))
	if err != nil || want.IsZero() {
		t.Fatal(want, err)
	}
	for c, err := range db.Changes(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for op := range c.Ops() {
			if last := string(op.Key) == "k000001"; last != op.ExpiresAt.Equal(want) || !last && !op.ExpiresAt.IsZero() {
				t.Errorf("change %d has %s until %v, want %v", c.Seq, op.Key, op.ExpiresAt, want)
			}
		}
		if c.Seq == 2 {
			break
		}
	}
}
