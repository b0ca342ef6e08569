//go:build !rocksdb

package main

// optionalStores are those that need cgo and a library.
func optionalStores() []store { return nil }
