package vfs

// StartWriteBack asks the system to begin writing n bytes of the file from
// off up to the disk, and does not wait. A later Sync, of this file or of
// another, then has less to do. It makes nothing durable, and a Sync still
// returns every error that it has to return. With [ErrUnsupported], the file
// is not one of the operating system, or the system has no such call.
func StartWriteBack(f File, off, n int64) error {
	file, ok := osFileOf(f)
	if !ok {
		return ErrUnsupported
	}
	return file.startWriteBack(off, n)
}
