package usage

import (
	"io/fs"
	"path/filepath"
)

// DirBytes is what the files below a directory take.
func DirBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum += allocated(info)
		return nil
	})
	return sum, err
}
