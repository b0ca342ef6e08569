// Package raftboltdb has shale's log store under the names that raft-boltdb's tests use. Those tests are
// not in this repository: TestRaftBoltdb of package boltbench takes them from the module cache, and lays
// them over this directory.
package raftboltdb

import (
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// ErrKeyNotFound is shale's.
var ErrKeyNotFound = cluster.ErrKeyNotFound

// A BoltStore is a log store with a store of its own.
type BoltStore struct {
	*cluster.LogStore
	db   *shale.DB
	path string
}

// NewBoltStore opens the log store in a directory.
func NewBoltStore(path string) (*BoltStore, error) {
	db, err := shale.Open(path, cluster.LogStoreOptions())
	if err != nil {
		return nil, err
	}
	return &BoltStore{cluster.NewLogStore(db), db, path}, nil
}

// Close closes the store.
func (b *BoltStore) Close() error { return b.db.Close() }
