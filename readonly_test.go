package shale

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

func TestReadOnly(t *testing.T) {
	testenv.SkipRace(t)
	dir := filepath.Join(t.TempDir(), "db")
	opts := small()
	db, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fill(t, db, 5000, 0)
	before := listDir(t, dir)
	ro, err := Open(dir, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if after := listDir(t, dir); !strings.Contains(after, "LOCK") || len(after) < len(before)/2 {
		t.Errorf("directory before %s, after %s", before, after)
	}
	fill(t, db, 5000, 1)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 5000; i += 7 {
		wantGet(t, ro, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
	}
	for name, err := range map[string]error{
		"Put":     ro.Put([]byte("k"), nil),
		"Delete":  ro.Delete([]byte("k")),
		"Flush":   ro.Flush(context.Background()),
		"Compact": ro.Compact(context.Background(), Range{}),
		"Sync":    ro.Sync(),
		"Resume":  ro.Resume(),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", name, err)
		}
	}
	if err := ro.Verify(context.Background()); err != nil {
		t.Errorf("Verify: %v", err)
	}
}
