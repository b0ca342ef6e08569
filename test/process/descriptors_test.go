package process

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// A store that is opened and closed, and opened in vain, again and again leaves
// no descriptors and no goroutines behind.
func TestDescriptors_OpenAndClose(t *testing.T) {
	dir, options := testenv.QuickDir(t), harness.NewDrawer(t)
	s := harness.NewStream("a", options.Seed, 120)
	store, damaged := filepath.Join(dir, "db"), filepath.Join(dir, "damaged")
	if err := errors.Join(s.Leave(store, *options.Next(), 200, true),
		harness.NewStream("a", options.Seed, 120).Leave(damaged, *options.Next(), 200, true)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "CURRENT"), []byte("shale 1 ../db/CURRENT 348\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	cycles := 300
	if testing.Short() {
		cycles = 50
	}
	testenv.CheckLeaks(t)
	goroutines, files := runtime.NumGoroutine(), testenv.OpenDescriptors()
	failed := 0
	for i := range cycles {
		db, err := shale.Open(store, options.Next())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Write(t.Context(), s.Write(201+i).Batch()); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{store, damaged, file} {
			if _, err := shale.Open(bad, options.Next()); err == nil {
				t.Fatalf("Open(%s) succeeded", bad)
			}
			failed++
		}
		if err := errors.Join(s.Check(db, 201+i, 201+i), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begin)
	testenv.WaitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines && testenv.OpenDescriptors() <= files })
	t.Logf("%d opens and closes, %d opens in vain: %d descriptors before, %d after; %d goroutines before, %d after; in %v", cycles, failed,
		files, testenv.OpenDescriptors(), goroutines, runtime.NumGoroutine(), took.Round(time.Millisecond))
}
