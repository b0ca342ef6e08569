package vfs

// DropCache asks the system to drop the file's pages from the page cache, and not
// to read ahead through f any more. The next reads then come from the disk. Pages
// that were not synced stay. It is for benchmarks and tests. With [ErrUnsupported],
// the file is not one of the operating system, or the system has no such call.
func DropCache(f File) error {
	file, ok := osFileOf(f)
	if !ok {
		return ErrUnsupported
	}
	return file.dropCache()
}

// ResidentPages returns how many of the file's pages are in memory, and how many there
// are. It is for benchmarks and tests. [ErrUnsupported] means the same as for [DropCache].
func ResidentPages(f File) (resident, total int, err error) {
	file, ok := osFileOf(f)
	if !ok {
		return 0, 0, ErrUnsupported
	}
	return file.residentPages()
}

// osFileOf returns the operating system's file that f is, or that
// lies under files with a method Unwrap, such as those of package faultfs.
func osFileOf(f File) (*osFile, bool) {
	for {
		switch file := f.(type) {
		case *osFile:
			return file, true
		case interface{ Unwrap() File }:
			f = file.Unwrap()
		default:
			return nil, false
		}
	}
}
