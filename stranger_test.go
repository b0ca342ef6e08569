package shale

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Files that the store did not make lie in its directory. Those with names that
// shale does not choose stay as they are; the others are leftovers, or are
// reported. None of them makes an answer wrong, or the next file overwrite
// another.
func TestOpen_Strangers(t *testing.T) {
	testenv.SkipRace(t)
	zeros, garbage := strings.Repeat("\x00", 8192), strings.Repeat("garbage ", 1024)
	store := damagedStore(t)
	for _, name := range []string{
		"notes.txt", "12.sst", "000012.sst.bak", "MANIFEST-12", "MANIFEST-", "current", "0000012.wal", "-00012.wal", "000012.WAL",
		"18446744073709551615.wal", "18446744073709551615.sst", "MANIFEST-18446744073709551615", "18446744073709551616.sst",
		"1152921504606846977.wal", "9223372036854775807.wal", "9223372036854775808.wal",
		"12.flt", "000012.flt.bak", "000012.FLT", "18446744073709551615.flt", "999999.flt", "000000.flt",
		"999999.wal", "999999.sst", "MANIFEST-999999", "999999.tmp", "000000.wal", "000000.sst", "MANIFEST-000000",
	} {
		for what, data := range map[string]string{"nothing": "", "zeros": zeros, "garbage": garbage} {
			mem := store.Crash(keepEverything)
			if err := writeFile(mem, filepath.Join("db", name), []byte(data)); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				db, err := Open("db", &Options{FS: mem})
				if err != nil {
					var damage *CorruptionError
					if !errors.As(err, &damage) || damage.File != name {
						t.Errorf("%s with %s: Open: %v, want a CorruptionError of it", name, what, err)
					}
					break
				}
				if n := db.tree.PeekFileNum(); n < 5 || n > 1_000_100 {
					t.Errorf("%s with %s: the next file has number %d", name, what, n)
				}
				for _, key := range []string{"k000", "k019", "k020", "k059", "k060", "k079"} {
					if v, err := db.Get([]byte(key)); err != nil || len(v) != 200 {
						t.Errorf("%s with %s: Get(%q): %d bytes, %v", name, what, key, len(v), err)
					}
				}
				mustPut(t, db, "new", string(rune('0'+i)))
				mustFlush(t, db)
				wantGet(t, db, "new", string(rune('0'+i)), true)
				closeTest(t, db)
			}
			if _, _, ours := base.ParseFileName(name); !ours {
				if got := readFile(t, mem, filepath.Join("db", name)); got != data {
					t.Errorf("%s with %s: has %d bytes now", name, what, len(got))
				}
			}
		}
	}
}

func readFile(t *testing.T, mem *vfs.Mem, name string) string {
	t.Helper()
	f, err := mem.Open(name)
	if err != nil {
		t.Errorf("open %s: %v", name, err)
		return ""
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) < size {
		t.Fatal(err)
	}
	return string(data)
}
