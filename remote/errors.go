package remote

import (
	"errors"

	"github.com/shaledb/shale/remote/internal/chain"
)

// The errors that callers ask for, and the mark of those that are not the bucket's fault.

var (
	// ErrFenced is wrapped by the errors of a writer that does not own its store any more: another one
	// has claimed it, or the directory is an older copy. That is final, and nothing is merged. Reads of
	// the local store go on. Restore the store into a new directory to write to it from here, and
	// look with Salvage at what the old directory had not shipped.
	ErrFenced = chain.ErrFenced

	// ErrSnapshotGone is wrapped by the errors of reads, restores and pins of a state that the bucket does not keep any
	// more: the time for which the owner retains states is over, or the pin has expired. Begin again with a newer
	// state, and pin states that shall stay.
	ErrSnapshotGone = chain.ErrSnapshotGone

	// ErrNotEmpty is wrapped by the error of Open if the bucket has a store and the directory has none.
	ErrNotEmpty = errors.New("the bucket has a store and the directory has none: restore it into the directory first")

	// ErrOtherStore is wrapped by the error of a call whose directory and bucket have two different stores.
	ErrOtherStore = errors.New("the bucket has another store")

	// ErrClosed is wrapped by the errors of a Store's methods after Close.
	ErrClosed = errors.New("the store is closed")
)

// A localError is an error with which the bucket has nothing to do: the local disk is full or fails, or a
// file of the store is damaged. Its text is that of its cause.
// It decides what Status says: Failing for a local error, Away for any other.
type localError struct{ error }

// Unwrap returns the cause.
func (e localError) Unwrap() error { return e.error }

// local marks an error as a localError. It returns nil for nil.
func local(err error) error {
	if err == nil || isLocal(err) {
		return err
	}
	return localError{err}
}

// isLocal reports whether an error was marked by local.
func isLocal(err error) bool {
	var l localError
	return errors.As(err, &l)
}
