package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

// The stable store: raft's own values, such as its term and its vote.

// ErrKeyNotFound is returned by [LogStore.Get] and GetUint64 for a key that was never set. Its text is
// what package raft looks for.
var ErrKeyNotFound = errors.New("not found")

// Set sets a value of raft's own, which is on disk when it returns.
func (s *LogStore) Set(key, value []byte) error {
	if err := s.db.Put(stableKey(key), value); err != nil {
		return fmt.Errorf("cluster: set %q of the stable store: %w", key, err)
	}
	return nil
}

// Get returns a value of raft's own as a new slice, or [ErrKeyNotFound].
func (s *LogStore) Get(key []byte) ([]byte, error) {
	value, err := s.db.Get(stableKey(key))
	if errors.Is(err, shale.ErrNotFound) {
		return nil, ErrKeyNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: get %q of the stable store: %w", key, err)
	}
	return value, nil
}

// SetUint64 is Set of eight bytes, big-endian, as raft-boltdb stores them.
func (s *LogStore) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns what SetUint64 has set, or [ErrKeyNotFound].
func (s *LogStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("cluster: get %q of the stable store: it has %d bytes, and a number has 8", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// stableKey returns the key of the store for a key of raft's.
func stableKey(key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), stablePrefix), key...)
}
