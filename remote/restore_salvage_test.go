package remote

import (
	"errors"
	"maps"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/vfs"
)

// A table that every step needs is damaged or missing, and the logs of what is in it were collected, so no point can be
// restored. Salvage and package repair save all that is whole, with its right values, and say what is lost.
func TestRestore_SalvageAndRepair(t *testing.T) {
	for _, h := range []string{"flipped", "truncated", "removed", "emptied"} {
		t.Run(h, func(t *testing.T) {
			b := NewMem()
			w := startWriter(t, b, 5, shale.Options{TableSize: 100 << 10})
			w.bulk()
			mustNil(t, w.db.Compact(t.Context(), shale.Range{}))
			w.publish()
			w.collect()
			for range 20 {
				w.commit(w.randomChanges())
			}
			w.ship()
			var bad tablefs.File
			var from, to string
			for table := range w.s.publish.chain.State.Tables.Version.Tables() {
				bad, from, to = tablefs.FileOf(table), string(table.Smallest), string(table.Largest)
			}
			data, err := ReadObject(t.Context(), b, bad.Name(), 1<<30)
			mustNil(t, err)
			mustNil(t, b.Delete(t.Context(), bad.Name()))
			switch h {
			case "flipped":
				data = remotetest.Flipped(data, 8*len(data)/2)
			case "truncated":
				data = data[:len(data)/2]
			case "emptied":
				data = nil
			}
			if h != "removed" {
				mustNil(t, PutObject(t.Context(), b, bad.Name(), data, true))
			}
			disk := vfs.NewMem()
			var point *PointError
			if _, err := Restore(t.Context(), b, "to", At{}, &RestoreOptions{FS: disk}); !errors.As(err, &point) || !object.IsDamage(err) {
				t.Fatalf("restore: %v", err)
			}
			r, err := Restore(t.Context(), b, "to", At{}, &RestoreOptions{FS: disk, Salvage: true})
			mustNil(t, err)
			if len(r.Damage) != 1 || r.Damage[0].Object != bad.Name() || r.At.Seq != w.s.ship.lastSeq {
				t.Errorf("salvaged %+v, want all but %s", r, bad.Name())
			}
			report, err := repair.Run(t.Context(), "to", "saved", &repair.Options{FS: disk})
			mustNil(t, err)
			if report.Whole() || len(report.Findings) == 0 {
				t.Errorf("repaired %+v", report)
			}
			want, lost, within := maps.Clone(w.modelAt(w.s.ship.lastSeq)), 0, 0
			for key := range want {
				if key >= from && key <= to {
					within++
				}
			}
			for key, value := range contentsOf(t, disk, "saved") {
				if string(want[key]) != value {
					t.Fatalf("%s = %.20q, want %.20q", key, value, want[key])
				}
				delete(want, key)
			}
			for key := range want {
				if lost++; key < from || key > to {
					t.Errorf("%s is lost, the damaged table goes from %s to %s", key, from, to)
				}
			}
			if lost == 0 || h == "flipped" && lost > 10 || h == "truncated" && lost > within/2 {
				t.Errorf("%d keys are lost of %d, want those of the blocks that are not whole", lost, within)
			}
			t.Logf("%d keys of %d are lost", lost, len(w.modelAt(w.s.ship.lastSeq)))
		})
	}
}
