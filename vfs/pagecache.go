package vfs

// DropCache asks the system to forget the file's pages and not to read ahead
// through f any more, so that the next reads come from the disk. Pages that
// were not synced stay. For benchmarks and tests. ErrUnsupported: the file is
// not the operating system's, or the system can't.
func DropCache(f File) error {
	file, ok := osFileOf(f)
	if !ok {
		return ErrUnsupported
	}
	return file.dropCache()
}

// ResidentPages returns how many of the file's pages are in memory. For
// benchmarks and tests. ErrUnsupported: as for DropCache.
func ResidentPages(f File) (resident, total int, err error) {
	file, ok := osFileOf(f)
	if !ok {
		return 0, 0, ErrUnsupported
	}
	return file.residentPages()
}

// osFileOf finds the operating system's file under faults.
func osFileOf(f File) (*osFile, bool) {
	for {
		switch file := f.(type) {
		case *osFile:
			return file, true
		case *faultFile:
			f = file.file
		default:
			return nil, false
		}
	}
}
