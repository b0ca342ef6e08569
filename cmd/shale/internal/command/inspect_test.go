package command

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

// fill writes n of the keys at random, deletes some, and returns the store, which
// has small tables in several levels.
func fill(t *testing.T, dir string, rnd *rand.Rand, n int, key func(i int) string) *shale.DB {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{MemtableSize: 16 << 10, TableSize: 4 << 10, Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		k := []byte(key(rnd.IntN(n / 3)))
		if rnd.IntN(5) == 0 {
			err = db.Delete(k)
		} else {
			err = db.Put(k, fmt.Appendf(nil, "%0*d", 1+rnd.IntN(40), 7))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// find and get agree on which version of a key is seen, or that there is none. They do so next to
// the program that writes, and after it has closed the store.
func TestFindAgreesWithGet(t *testing.T) {
	testenv.SkipRace(t)
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	dir := filepath.Join(t.TempDir(), "db")
	db := fill(t, dir, rnd, 3000, func(i int) string { return fmt.Sprintf("key%04d", i) })
	if err := db.Delete([]byte("key0000")); err != nil { // a deletion that no compaction has dropped
		t.Fatal(err)
	}
	seen := regexp.MustCompile(`(?m)^ *[\d,]+  (put|delete) +(\S+)( B)?  \S+ .*  yes`)
	versions, puts, deletions := 0, 0, 0
	loops := 40
	if testing.Short() {
		loops = 15
	}
	check := func() {
		for i := range loops {
			key := fmt.Sprintf("key%04d", rnd.IntN(1000)*min(i, 1))
			out, notes, st := call("", "-C", dir, "explain", "--versions", key)
			value, _, getStatus := call("", "-C", dir, "get", key)
			if st != getStatus || strings.Contains(notes, "shale:") {
				t.Fatalf("find %s: status %d, get has %d\n%s%s", key, st, getStatus, out, notes)
			}
			m := seen.FindAllStringSubmatch(out, -1)
			versions += max(strings.Count(out, "\n")-1, 0)
			switch {
			case len(m) > 1, st == Found && (len(m) == 0 || m[0][1] != "put" || m[0][2] != fmt.Sprint(len(value)-1)):
				t.Fatalf("find %s, whose value is %q, shows\n%s", key, value, out)
			case st == Found:
				puts++
			case len(m) == 1:
				deletions++
			}
		}
	}
	check()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check()
	t.Logf("%d versions, %d puts, %d deletions seen", versions, puts, deletions)
	if puts == 0 || versions <= puts+deletions || deletions == 0 && !testing.Short() {
		t.Error("not all kinds were met")
	}
}

// Every command that reads files works next to a program that has the store
// open, and on the closed store.
func TestInspectBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := fill(t, dir, rand.New(rand.NewPCG(1, 2)), 3000, func(i int) string { return fmt.Sprintf("key%04d", i) })
	look := func() {
		table := fmt.Sprint(db.Inspect().Tables()[0].Number)
		for _, args := range [][]string{
			{"tables", table}, {"tables", table, "blocks"}, {"tables", table, "keys"}, {"wal"},
			{"manifest"}, {"space"}, {"levels"}, {"tables"}, {"filters"}, {"metrics"},
		} {
			out, notes, st := call("", append([]string{"-C", dir}, args...)...)
			if st != Found || strings.Count(out, "\n") < 1 || strings.Contains(notes, "shale:") {
				t.Errorf("%v: status %d\n%s%s", args, st, out, notes)
			}
		}
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context(), shale.Range{}); err != nil {
		t.Fatal(err)
	}
	look()
	tables := db.Inspect().Tables()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	out, notes, st := call("", "-C", dir, "tables", fmt.Sprint(tables[0].Number), "blocks")
	if st != Found || strings.Count(out, "checked") == 0 {
		t.Errorf("closed: status %d, %s%s", st, out, notes)
	}
}

func TestInspectWithoutAStore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{filepath.Join(dir, "nowhere"), dir, file} {
		for _, args := range [][]string{
			{"tables", "1"}, {"wal"}, {"wal", "1"}, {"manifest"}, {"explain", "--versions", "k"}, {"space"}, {"levels"}, {"tables"},
			{"metrics"},
		} {
			out, notes, st := call("", append([]string{"-C", at}, args...)...)
			if st != Failed || out != "" || !strings.Contains(notes, filepath.Base(at)) || strings.Count(notes, "\n") != 1 {
				t.Errorf("-C %s %v: status %d, %q, %q; want one line that names it", at, args, st, out, notes)
			}
		}
	}
}

// wal distinguishes a record that a crash has torn from a complete end of a log, and from damage.
func TestWalTornEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, &shale.Options{MemtableSize: 64 << 10, Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, k := range []string{"a", "b", "c"} {
		if err := db.Put([]byte(k), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	out, notes, st := call("", "-C", dir, "wal")
	m := regexp.MustCompile(`(?m)^(\d+) .* 3 +3 +1 +3  open: ends whole at (\d+)`).FindStringSubmatch(out)
	if st != Found || len(m) < 3 {
		t.Fatalf("status %d, %s%s", st, out, notes)
	}
	end := 0
	if _, err := fmt.Sscan(m[2], &end); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(torn, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(torn, m[1]+".wal")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[end-3 : end])
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, notes, st = call("", "-C", torn, "wal", m[1])
	if st != Found || strings.Count(out, "put") != 2 || !strings.Contains(notes, "torn: from ") {
		t.Errorf("status %d, %s%s", st, out, notes)
	}
	if out, notes, st := call("", "-C", torn, "explain", "--versions", "c"); st != Absent || out != "" {
		t.Errorf("find: status %d, %s%s", st, out, notes)
	}
	if out, notes, st := call("", "-C", torn, "get", "c"); st != Absent {
		t.Errorf("get: status %d, %s%s", st, out, notes)
	}
}
