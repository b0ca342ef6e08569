package chain

import "errors"

// Errors of writers and readers: see remote.
var (
	ErrFenced       = errors.New("another writer owns the store")
	ErrSnapshotGone = errors.New("the state is not kept any more")
)
