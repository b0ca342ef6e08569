package program

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// large makes the store db, with 8 MiB of values that don't compress in tables of about a quarter of that, and ships it so that
// 1 MiB stays local. It returns the objects of the tables that are only in the bucket.
func large(t *testing.T) (evicted []string) {
	t.Helper()
	t.Chdir(t.TempDir())
	db, err := shale.Open("db", &shale.Options{MemtableSize: 2 << 20, TableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 4096)
	for i := range 2048 {
		_, _ = rand.Read(value)
		if err := db.Put(fmt.Appendf(nil, "key%05d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Flush(t.Context()), db.Compact(t.Context(), shale.Range{}), db.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, "ship", "--once", "--local", "1MiB", "db", "bucket")
	state, err := manifest.Load(vfs.Default, "db")
	if err != nil {
		t.Fatal(err)
	}
	for table := range state.Version.Tables() {
		if _, err := os.Stat(filepath.Join("db", base.TableName(table.Num))); err != nil {
			evicted = append(evicted, object.TableName(uint64(table.Num)))
		}
	}
	if len(evicted) < 2 {
		t.Fatalf("%d tables are only in the bucket", len(evicted))
	}
	return evicted
}

// count returns how many keys the store db has, or -1 with the error of Open.
func count(dir string) (int, error) {
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true})
	if err != nil {
		return -1, err
	}
	defer db.Close() // only read
	n := 0
	for _, err := range db.Scan(shale.Range{}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// A store larger than its disk is taken over onto another small one, and brought back to one place.
func TestHydrate(t *testing.T) {
	evicted := large(t)
	if _, err := count("db"); !errors.Is(err, shale.ErrElsewhere) || !strings.Contains(err.Error(), "shale-remote hydrate") {
		t.Errorf("without the bucket: %v", err)
	}
	if out := must(t, "hydrate", "db", "bucket"); !strings.Contains(out, fmt.Sprintf("db: %d tables, ", len(evicted))) || !strings.Contains(out, "opens without the bucket") {
		t.Error(out)
	}
	if out := must(t, "hydrate", "db", "bucket"); !strings.Contains(out, "db: 0 tables, 0 B fetched") {
		t.Error(out)
	}
	must(t, "promote", "--local", "2MiB", "bucket", "other")
	if _, err := count("other"); !errors.Is(err, shale.ErrElsewhere) {
		t.Errorf("promoted, without the bucket: %v", err)
	}
	must(t, "hydrate", "other", "bucket")
	for _, dir := range []string{"db", "other"} {
		if n, err := count(dir); n != 2048 || err != nil {
			t.Errorf("%s: %d keys, %v", dir, n, err)
		}
	}
}

// Damage is said with what to do next, and so are mistakes.
func TestHydrate_Damage(t *testing.T) {
	evicted := large(t)
	name := evicted[1]
	bad := filepath.Join("bucket", filepath.FromSlash(name))
	data, err := os.ReadFile(bad)
	if err != nil {
		t.Fatal(err)
	}
	data[100] ^= 1
	if err := os.WriteFile(bad, data, 0o600); err != nil {
		t.Fatal(err)
	}
	bucket, err := remote.NewDir(nil, "bucket")
	if err != nil {
		t.Fatal(err)
	}
	s, err := remote.Open(context.Background(), "db", bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, notes, status := run(t, "hydrate", "db", "bucket"); status != failed || !strings.Contains(notes, fmt.Sprintf("process %d has db open for writing: end it", os.Getpid())) {
		t.Errorf("status %d, %s", status, notes)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"hydrate", "db", "bucket"}, "`shale-remote hydrate --salvage db bucket` also fetches"},
		{[]string{"hydrate", "--salvage", "db", "bucket"}, "`shale db repair TO` saves"},
	} {
		out, notes, status := run(t, c.args...)
		if status != absent || !strings.Contains(out, name) || !strings.Contains(out, "DAMAGED: 1 table of the bucket") || !strings.Contains(out, c.says) {
			t.Errorf("%q: status %d, %s%s", c.args, status, out, notes)
		}
	}
	if n, err := count("db"); err == nil || n >= 2048 {
		t.Errorf("%d keys, %v", n, err)
	}
	manifests, err := filepath.Glob("db/MANIFEST-*")
	if err != nil || len(manifests) != 1 {
		t.Fatalf("%q, %v", manifests, err)
	}
	if err := os.Truncate(manifests[0], 40); err != nil {
		t.Fatal(err)
	}
	if out, notes, status := run(t, "hydrate", "db", "bucket"); status != absent || !strings.Contains(out, "DAMAGED: the manifest of the folder") {
		t.Errorf("status %d, %s%s", status, out, notes)
	}
	for _, c := range [][]string{
		{"ship", "--once", "--local", "5", "db", "bucket", "--local 5 is not a size"},
		{"promote", "--local", "much", "bucket", "new", "--local much is not a size"},
		{"hydrate", "none", "bucket", "there is no store in it"},
		{"hydrate", "db", "db", "must not lie in each other"},
		{"hydrate", "bucket", "no store is named"},
	} {
		if _, notes, status := run(t, c[:len(c)-1]...); status != failed || !strings.Contains(notes, c[len(c)-1]) {
			t.Errorf("%q: status %d, %s", c, status, notes)
		}
	}
}
