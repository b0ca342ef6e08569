package remote

import "errors"

var (
	// ErrFenced is wrapped by the errors of a writer that does not own its store any more: another one
	// has claimed it, or the directory is an older copy. That is final, and nothing is merged. Reads of
	// the local store go on. Restore the store into a new directory to write to it from here, and
	// look with Salvage at what the old directory had not shipped.
	ErrFenced = errors.New("another writer owns the store")

	// ErrSnapshotGone is wrapped by the errors of reads, restores and pins of a state that the bucket does not keep any
	// more: the time for which the owner retains states is over, or the pin has expired. Begin again with a newer
	// state, and pin states that shall stay.
	ErrSnapshotGone = errors.New("the state is not kept any more")
)
