package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// isTheirs reports whether line is what CURRENT says in stores of LevelDB and of those that came
// from it: the name of a manifest, and nothing else. (Package regexp would add 0.4 MB to programs.)
func isTheirs(line []byte) bool {
	name, found := strings.CutPrefix(string(line), "MANIFEST-")
	digits, ended := strings.CutSuffix(name, "\n")
	return found && ended && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// magicOfAll is how the eight bytes begin that open our logs and manifests, and close our tables.
const magicOfAll = "shale"

// unlessForeign returns err, which Load has found. If err is damage of CURRENT, but the directory
// is a store of another program, it returns an error that names that program: nothing is damaged.
//
// Two things prove that. CURRENT or the names of files are as only the other program makes them,
// and no file that is named like ours has our magic. A store of ours whose CURRENT is damaged fails
// the second, if not the first.
func unlessForeign(fsys vfs.FS, dir string, err error) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) || damage.File != base.CurrentName {
		return err
	}
	names, listErr := fsys.List(dir)
	if listErr != nil {
		return err
	}
	program := ""
	if line, readErr := readLine(fsys, dir); readErr == nil && isTheirs(line) {
		program = "LevelDB, RocksDB or Pebble"
	}
	for _, name := range names {
		if typ, _, ok := base.ParseFileName(name); ok && hasMagic(fsys, filepath.Join(dir, name), typ) {
			return err
		}
		switch ext := filepath.Ext(name); {
		case ext == ".vlog" || name == "KEYREGISTRY":
			program = "Badger"
		case program == "" && (ext == ".ldb" || name == "IDENTITY" || strings.HasPrefix(name, "OPTIONS-") || strings.HasPrefix(name, "marker.")):
			program = "LevelDB, RocksDB or Pebble"
		}
	}
	if program == "" {
		return err
	}
	return fmt.Errorf("manifest: no store of shale; it looks like one of %s", program)
}

// hasMagic reports whether a file of this type begins or ends as ours do, or can't be read.
func hasMagic(fsys vfs.FS, name string, typ base.FileType) bool {
	f, err := fsys.Open(name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() // only read
	size, err := f.Size()
	b := make([]byte, min(size, int64(len(magic))))
	at := int64(0)
	if typ == base.FileTable {
		at = size - int64(len(b))
	}
	if n, readErr := f.ReadAt(b, at); err != nil || n < len(b) && readErr != io.EOF {
		return true
	}
	return strings.HasPrefix(string(b), magicOfAll)
}
