package repair

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Logs do not have what was ingested. So their writes hide nothing that was ingested after them, and
// are no state of the store if it is lost.
func TestRun_LogsBesideAnIngestion(t *testing.T) {
	whole := map[string]string{"a": "old", "b": "new", "k": "new", "x": "later", "z": "old"}
	for _, tt := range []struct {
		name   string
		hold   uint64                                                      // Options.Shipping.HoldLogs
		cut    bool                                                        // the power is cut before the mark of the ingestion is durable
		damage func(t *testing.T, disk *vfs.Mem, manifest string, n int64) // n: its length before the ingestion
		want   map[string]string
		left   string // a reason for what was left
		guess  bool   // Options.Doubtful
	}{
		{name: "a log was kept to be used again", want: whole},
		{name: "a log is held", hold: 1, want: whole},
		{name: "the mark is lost", hold: 1, cut: true, want: whole},
		{name: "the manifest is damaged before the ingestion", hold: 1,
			damage: func(t *testing.T, disk *vfs.Mem, manifest string, n int64) { overwrite(t, disk, manifest, n) },
			want:   map[string]string{"a": "old", "z": "old"}},
		{name: "there is no manifest", hold: 1,
			damage: func(t *testing.T, disk *vfs.Mem, manifest string, _ int64) { remove(t, disk, manifest, "db/CURRENT") },
			want:   map[string]string{"a": "old", "x": "later", "z": "old"}, left: "keys that an ingestion may have set later"},
		{name: "there is no manifest, and what is doubtful is wanted", hold: 1, guess: true,
			damage: func(t *testing.T, disk *vfs.Mem, manifest string, _ int64) { remove(t, disk, manifest, "db/CURRENT") },
			want:   whole, left: "keys that an ingestion may have set later"},
		{name: "there is no manifest, and the mark is lost", hold: 1, cut: true,
			damage: func(t *testing.T, disk *vfs.Mem, manifest string, _ int64) { remove(t, disk, manifest, "db/CURRENT") },
			want:   map[string]string{"x": "later"}, left: "commits behind a gap"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := vfs.NewMem()
			open := func(dir string) *shale.DB {
				t.Helper()
				db, err := shale.Open(dir, &shale.Options{FS: disk, Shipping: shale.ShippingOptions{HoldLogs: tt.hold}, Durability: shale.SyncManual})
				if err != nil {
					t.Fatal(err)
				}
				return db
			}
			check := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			ctx := context.Background()
			db := open("db")
			for _, key := range []string{"a", "k", "z"} {
				check("Put", db.Put([]byte(key), []byte("old")))
			}
			check("Delete", db.Delete([]byte("k")))
			check("Flush", db.Flush(ctx))
			manifest, n := manifestOf(t, disk)
			check("Ingest", db.Ingest(ctx, func(yield func(k, v []byte) bool) {
				_ = yield([]byte("b"), []byte("new")) && yield([]byte("k"), []byte("new"))
			}))
			check("Compact", db.Compact(ctx, shale.Range{})) // what was ingested gets sequence number 0
			if tt.cut {
				disk = disk.Crash(vfs.CrashConfig{})
				check("Close", db.Close())
				db = open("db")
			}
			check("Put", db.Put([]byte("x"), []byte("later")))
			check("Close", db.Close())
			if tt.damage != nil {
				if tt.cut {
					manifest, n = manifestOf(t, disk)
				}
				tt.damage(t, disk, manifest, n)
			}

			r, err := Run(ctx, "db", "into", &Options{FS: disk, Doubtful: tt.guess})
			check("Run", err)
			db = open("into")
			got := make(map[string]string)
			for e, err := range db.Scan(shale.Range{}) {
				check("Scan", err)
				got[string(e.Key)] = string(e.Value)
			}
			check("Close", db.Close())
			if !maps.Equal(got, tt.want) {
				t.Errorf("saved %v, want %v; the report: %+v", got, tt.want, r)
			}
			if tt.left != "" && !slices.ContainsFunc(r.Left, func(l Left) bool { return l.Why == tt.left && l.Entries > 0 }) {
				t.Errorf("nothing was left for %s: %+v", tt.left, r.Left)
			}
			if lost := tt.damage != nil; r.Whole() == lost {
				t.Errorf("Whole = %v: %+v", r.Whole(), r)
			}
		})
	}
}

// manifestOf returns the manifest of the store in db, and its length.
func manifestOf(t *testing.T, disk *vfs.Mem) (name string, length int64) {
	t.Helper()
	names, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if typ, _, ok := base.ParseFileName(n); ok && typ == base.FileManifest {
			name = "db/" + n
		}
	}
	info, err := disk.Stat(name)
	if err != nil || !strings.Contains(name, "MANIFEST") {
		t.Fatalf("%q: %v", name, err)
	}
	return name, info.Size
}

func overwrite(t *testing.T, disk *vfs.Mem, name string, at int64) {
	t.Helper()
	f, err := disk.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xee, 0xee, 0xee}, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, disk *vfs.Mem, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := disk.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
