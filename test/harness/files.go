package harness

import (
	"path/filepath"

	"github.com/shaledb/shale/vfs"
)

// Files returns the files in a directory, by their names, with their bytes.
func Files(fs vfs.FS, dir string) (map[string]string, error) {
	names, err := fs.List(dir)
	files := make(map[string]string)
	for i := 0; i < len(names) && err == nil; i++ {
		files[names[i]], err = readFile(fs, filepath.Join(dir, names[i]))
	}
	return files, err
}

func readFile(fs vfs.FS, name string) (data string, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return "", err
	}
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	return string(b), err
}
