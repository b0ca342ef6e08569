//go:build !rocksdb

package stores

// optionalKinds are those that need cgo and a library.
var optionalKinds []Kind
