package vfs

// StartWriteBack asks the system to begin writing the range of the file to the
// disk, and does not wait for it: a later Sync, of this file or of others, then
// has less to wait for. It makes nothing durable, and takes from no Sync the
// error that it has to return. ErrUnsupported: the file is not the operating
// system's, or the system can't.
func StartWriteBack(f File, off, n int64) error {
	file, ok := osFileOf(f)
	if !ok {
		return ErrUnsupported
	}
	return file.startWriteBack(off, n)
}
