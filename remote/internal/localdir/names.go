package localdir

import "github.com/shaledb/shale/vfs"

// Names returns the names in a directory.
func Names(fsys vfs.FS, dir string) (map[string]bool, error) {
	list, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(list))
	for _, name := range list {
		names[name] = true
	}
	return names, nil
}
