package bbolt

import (
	stderrors "errors"
	"fmt"

	"go.etcd.io/bbolt/errors"
)

// This file has the errors.

// These are the errors of package go.etcd.io/bbolt/errors, under the names that bbolt keeps for older programs.
//
// Deprecated: use that package.
var (
	ErrDatabaseNotOpen    = errors.ErrDatabaseNotOpen
	ErrInvalid            = errors.ErrInvalid
	ErrInvalidMapping     = errors.ErrInvalidMapping
	ErrVersionMismatch    = errors.ErrVersionMismatch
	ErrChecksum           = errors.ErrChecksum
	ErrTimeout            = errors.ErrTimeout
	ErrTxNotWritable      = errors.ErrTxNotWritable
	ErrTxClosed           = errors.ErrTxClosed
	ErrDatabaseReadOnly   = errors.ErrDatabaseReadOnly
	ErrFreePagesNotLoaded = errors.ErrFreePagesNotLoaded
	ErrBucketNotFound     = errors.ErrBucketNotFound
	ErrBucketExists       = errors.ErrBucketExists
	ErrBucketNameRequired = errors.ErrBucketNameRequired
	ErrKeyRequired        = errors.ErrKeyRequired
	ErrKeyTooLarge        = errors.ErrKeyTooLarge
	ErrValueTooLarge      = errors.ErrValueTooLarge
	ErrIncompatibleValue  = errors.ErrIncompatibleValue
)

// ErrNotSupported is wrapped by the errors of calls and options that make no sense for a store of shale. The message names
// the call and another way.
var ErrNotSupported = stderrors.New("not supported")

func notSupported(what, instead string) error {
	return fmt.Errorf("bolt: %s is %w: %s", what, ErrNotSupported, instead)
}
