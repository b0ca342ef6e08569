package remote

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/vfs"
)

// Either of the two places of a store that is larger than its disk may be damaged or lost: objects, the manifest of the
// directory, or the bucket.

// A table of the bucket is damaged or missing. Hydrate names it and brings all others, and the store opens with its bucket as
// before. With Salvage it brings what there is, and package repair saves all that is whole. If nothing is there, repair
// must be told to give the table up.
func TestHydrate_DamagedTables(t *testing.T) {
	for _, h := range []string{"flipped", "truncated", "removed"} {
		t.Run(h, func(t *testing.T) {
			b, disk := NewMem(), vfs.NewMem()
			o, model := evictedStore(t, b, disk)
			o.LocalBytes = 0
			all := lacking(t, disk)
			bad := all[len(all)-1] // of the last level: nothing older is doubtful for it
			name := object.TableName(uint64(bad.Num))
			data, err := ReadObject(t.Context(), b, name, 1<<30)
			mustNil(t, errors.Join(err, b.Delete(t.Context(), name)))
			switch h {
			case "flipped":
				mustNil(t, PutObject(t.Context(), b, name, remotetest.Flipped(data, 8*len(data)/2), true))
			case "truncated":
				mustNil(t, PutObject(t.Context(), b, name, data[:len(data)/2], true))
			}
			made, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk})
			if !object.IsDamage(err) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "all others were fetched") ||
				len(made.Damage) != 1 || made.Damage[0].Object != name || made.Tables != len(all)-1 {
				t.Errorf("%+v, %v", made, err)
			}
			if _, err := shale.Open("db", &o.Store); !errors.Is(err, shale.ErrElsewhere) {
				t.Errorf("without the bucket: %v", err)
			}
			s := openStore(t, "db", b, o)
			if v, err := s.DB().Get([]byte("news0003")); err != nil || string(v) != model["news0003"] {
				t.Errorf("with the bucket: %q, %v", v, err)
			}
			mustNil(t, s.Close())
			made, err = Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk, Salvage: true})
			if err != nil || len(made.Damage) != 1 || made.Damage[0].Object != name {
				t.Errorf("salvaged: %+v, %v", made, err)
			}
			report, err := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk})
			if h == "removed" {
				if !errors.Is(err, shale.ErrElsewhere) {
					t.Errorf("repaired without a word: %v", err)
				}
				report, err = repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk, GiveUp: true})
			}
			mustNil(t, err)
			if report.Whole() || report.GivenUp > 0 != (h == "removed") {
				t.Errorf("repaired: %+v", report)
			}
			lost := lostFrom(t, readPlain(t, disk, "saved"), model)
			if i := slices.IndexFunc(lost, func(key string) bool { return !inOneOf([]*manifest.Table{bad}, key) }); i >= 0 {
				t.Errorf("%s is lost, which is not in the table", lost[i])
			}
			if len(lost) == 0 || h == "flipped" && len(lost) > 20 {
				t.Errorf("%d keys are lost", len(lost))
			}
		})
	}
}

// The bucket is lost for good. Without a word about it, check and repair refuse and change nothing. If its tables are given up,
// repair saves all that is local, and lists each table with its size and the range of its keys.
func TestHydrate_LostBucket(t *testing.T) {
	b, disk := NewMem(), vfs.NewMem()
	_, model := evictedStore(t, b, disk)
	all := lacking(t, disk)
	if _, err := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk}); !errors.Is(err, shale.ErrElsewhere) || !strings.Contains(err.Error(), "shale-remote hydrate") {
		t.Errorf("repaired without a word: %v", err)
	}
	report, err := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk, GiveUp: true})
	mustNil(t, err)
	var bytes int64
	for _, table := range all {
		bytes += table.Size
		i := slices.IndexFunc(report.Findings, func(f repair.Finding) bool { return f.File == base.TableName(table.Num) })
		if i < 0 {
			t.Fatalf("table %s is not in the report", table.Num)
		}
		f := report.Findings[i]
		if f.Harm != repair.LostEntries || string(f.Keys.Lower) != string(table.Smallest) || string(f.Keys.Upper) != string(table.Largest) ||
			!strings.Contains(f.What(), "given up, with "+base.FormatBytes(table.Size)) {
			t.Errorf("table %s: %s, %v", table.Num, f.What(), f.Keys)
		}
	}
	if report.GivenUp != len(all) || report.GivenUpBytes != bytes {
		t.Errorf("%d tables with %d bytes are given up, want %d with %d", report.GivenUp, report.GivenUpBytes, len(all), bytes)
	}
	saved := readPlain(t, disk, "saved")
	for _, key := range lostFrom(t, saved, model) {
		if !inOneOf(all, key) {
			t.Errorf("%s is lost, which was local", key)
		}
	}
	if saved["news0003"] == "" || len(saved) < 100 || len(saved) == len(model) {
		t.Errorf("%d of %d keys are saved", len(saved), len(model))
	}
}

// The manifest of the directory is damaged, or lost. Hydrate brings what can be told of it and what the newest step names, and
// repair works on that. A restore and what had not been shipped have everything.
func TestHydrate_DamagedManifest(t *testing.T) {
	for _, h := range []string{"flipped", "without CURRENT", "lost"} {
		t.Run(h, func(t *testing.T) {
			b, disk := NewMem(), vfs.NewMem()
			o, model := evictedStore(t, b, disk)
			o.LocalBytes = 0
			s := openStore(t, "db", b, o) // which begins a manifest
			put(t, s, model, "more", 10)
			mustNil(t, errors.Join(s.DB().Flush(t.Context()), s.Publish(t.Context())))
			before := maps.Clone(model)
			put(t, s, model, "late", 10)
			mustNil(t, s.DB().Flush(t.Context()))
			disk = copyOf(disk) // the process ends, and has not shipped that
			state, err := manifest.Load(disk, "db")
			mustNil(t, err)
			path := filepath.Join("db", base.ManifestName(state.ManifestNum))
			if h == "flipped" {
				remotetest.ChangeFile(t, disk, path, func(b []byte) []byte { return remotetest.Flipped(b, 8*(len(b)-20)) })
			} else {
				mustNil(t, disk.Remove(filepath.Join("db", base.CurrentName)))
			}
			if h == "lost" {
				mustNil(t, disk.Remove(path))
			}
			made, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk})
			if err != nil || !object.IsDamage(made.Manifest) || made.Tables == 0 {
				t.Fatalf("%+v, %v", made, err)
			}
			report, err := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk, Doubtful: h == "lost"})
			mustNil(t, err)
			lost := lostFrom(t, readPlain(t, disk, "saved"), model)
			for _, key := range lost {
				if before[key] != "" {
					t.Fatalf("%s is lost", key)
				}
			}
			t.Logf("as of %d: %d keys are lost", report.AsOf, len(lost))
			_, err = Restore(t.Context(), b, "restored", At{}, &RestoreOptions{FS: disk})
			mustNil(t, err)
			got := readPlain(t, disk, "restored")
			for u, err := range Salvage(disk, "db") {
				mustNil(t, err)
				for op := range u.Batch.Ops() {
					got[string(op.Key)] = string(op.Value)
				}
			}
			sameMap(t, "restored and salvaged", got, model)
		})
	}
}

// Nothing in a directory says which store it has.
func TestHydrate_NoNotes(t *testing.T) {
	b, disk := NewMem(), vfs.NewMem()
	evictedStore(t, b, disk)
	state, err := manifest.Load(disk, "db")
	mustNil(t, err)
	for _, name := range []string{base.CurrentName, base.ManifestName(state.ManifestNum), "REMOTE"} {
		mustNil(t, disk.Remove(filepath.Join("db", name)))
	}
	_, err = Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk})
	if !object.IsDamage(err) || !strings.Contains(err.Error(), "restore the store into another directory") {
		t.Error(err)
	}
}
