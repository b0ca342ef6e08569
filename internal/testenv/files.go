package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// QuickDir returns a directory in memory, where a sync costs nothing, if there is one: for tests that
// need no disk.
func QuickDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "shale-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// FileTree returns what is below a directory, by path: the contents of files, the targets of links.
func FileTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			found[path] = "directory"
		case d.Type() == fs.ModeSymlink:
			found[path], err = os.Readlink(path)
		default:
			var data []byte
			data, err = os.ReadFile(path)
			found[path] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
