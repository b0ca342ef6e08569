package shale

// This file has Inspect, which leads to what tools ask a store.

// An Inspector has what tools ask a store, or have it do, and other programs rarely. All methods
// may be called concurrently.
type Inspector struct{ db *DB }

// Inspect returns the Inspector of the store.
func (db *DB) Inspect() Inspector { return Inspector{db} }
