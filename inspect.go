package shale

// This file has Inspect, which leads to what tools ask a store.

// An Inspector has the calls that tools need and other programs rarely do. All methods may be called concurrently.
type Inspector struct{ db *DB }

// Inspect returns the Inspector of the store.
func (db *DB) Inspect() Inspector { return Inspector{db} }
