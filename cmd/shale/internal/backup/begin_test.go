package backup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// Of a store that keeps tables elsewhere too, only the folder is copied. If a table is not there, the run says where it may be,
// and doesn't call it damage. If all are there, the backup needs no other place.
func TestBackup_Elsewhere(t *testing.T) {
	w := newWorld(t, 0)
	w.put("a", "1")
	w.must(errors.Join(w.db.Flush(t.Context()), shale.ShippingOf(w.db).Elsewhere("the attic"), w.db.Close()))
	state, err := manifest.Load(w.fs, "db")
	w.must(err)
	for table := range state.Version.Tables() {
		name := filepath.Join("db", base.TableName(table.Num))
		w.must(w.fs.Rename(name, "moved"))
		var damage *shale.CorruptionError
		if _, err := Run(t.Context(), w.fs, "db", "to", new(Progress)); !errors.Is(err, shale.ErrElsewhere) || errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the attic") {
			t.Errorf("without %s: %v", name, err)
		}
		w.must(w.fs.Rename("moved", name))
	}
	w.open()
	w.backup()
	w.wantNewest()
	lines, err := Lines(w.fs, "to")
	w.must(err)
	if len(lines) != 1 || lines[0].state.Elsewhere != "" {
		t.Errorf("%d lines, the first one with tables in %q", len(lines), lines[0].state.Elsewhere)
	}
}
