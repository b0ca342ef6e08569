package manifest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A store of another program is called by its name, and is neither damaged nor absent: a new store
// is not made among its files.
func TestLoad_StoreOfAnotherProgram(t *testing.T) {
	for want, stores := range map[string][]map[string]string{
		"LevelDB, RocksDB or Pebble": {
			{"CURRENT": "MANIFEST-000002\n", "MANIFEST-000002": "\x56\xf9\xb8\xf8\x1c\x00\x01\x01\x1aleveldb.BytewiseComparator", "000005.ldb": "x", "000003.log": "", "LOCK": ""},
			{"CURRENT": "MANIFEST-000005\n", "MANIFEST-000005": "rocks", "000010.sst": "x", "IDENTITY": "id", "OPTIONS-000007": "[Version]"},
			{"CURRENT": "MANIFEST-000001\n"},
			{"marker.manifest.000001.MANIFEST-000001": "", "MANIFEST-000001": "pebble", "000004.sst": "x", "OPTIONS-000003": "[Version]"},
		},
		"Badger": {{"MANIFEST": "Bdgr\x00\x00", "KEYREGISTRY": "k", "000001.vlog": "", "000002.sst": "x", "DISCARD": ""}},
	} {
		for _, files := range stores {
			m := newMem(t)
			for name, content := range files {
				putFile(t, m, name, []byte(content))
			}
			if _, err := Load(m, dir); err == nil || !strings.Contains(err.Error(), want) || errorIsCorruption(err, "CURRENT") || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Load of %v: %v", files, err)
			}
			if err := Exists(m, dir); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Exists of %v: %v", files, err)
			}
			if _, err := Salvage(m, dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Salvage of %v: %v", files, err)
			}
		}
	}
}

// A store of ours stays a damaged one, whatever its CURRENT says, as long as a file has our magic.
func TestLoad_DamagedCurrentIsNotForeign(t *testing.T) {
	for file, content := range map[string]string{
		"MANIFEST-000001": "shaleMAN and damage",
		"000003.wal":      "shaleWAL and damage",
		"000004.sst":      "damage and shaleSST",
	} {
		for _, line := range []string{"MANIFEST-000001\n", "x", "missing"} {
			m := newMem(t)
			putFile(t, m, file, []byte(content))
			putFile(t, m, "000002.sst", []byte("x"))
			putFile(t, m, "OPTIONS-000007", nil)
			if line != "missing" {
				putFile(t, m, "CURRENT", []byte(line))
			}
			if _, err := Load(m, dir); !errorIsCorruption(err, "CURRENT") {
				t.Errorf("%s, and %q in CURRENT: %v", file, line, err)
			}
		}
	}
	m := newMem(t) // no file has a magic, and none is another program's
	putFile(t, m, "CURRENT", []byte("x"))
	putFile(t, m, "000002.sst", []byte("x"))
	if _, err := Load(m, dir); !errorIsCorruption(err, "CURRENT") {
		t.Errorf("without a magic: %v", err)
	}
	m = newMem(t) // nothing can be read, so nothing is proven
	putFile(t, m, "CURRENT", []byte("MANIFEST-000001\n"))
	putFile(t, m, "000002.sst", []byte("x"))
	if _, err := Load(closedTables{m}, dir); !errorIsCorruption(err, "CURRENT") {
		t.Errorf("with tables that can't be read: %v", err)
	}
}

// closedTables is a file system whose tables nobody may read.
type closedTables struct{ vfs.FS }

func (c closedTables) Open(name string) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		return nil, fs.ErrPermission
	}
	return c.FS.Open(name)
}
