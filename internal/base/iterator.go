package base

// A KV is one entry: an internal key and its value.
type KV struct {
	InternalKey
	Value []byte
}

// An Iterator walks internal entries in the order of Compare. Every source of
// entries (memtable, table, run, merge) is one.
//
// The positioning methods return the entry that the iterator now stands on, or
// nil when there is none: then Err tells an end from a failure. A returned KV
// and its slices belong to the iterator and stay valid until its next
// positioning call; they must not be changed. After nil, Next and Prev keep
// returning nil until First, Last or a seek positions the iterator again.
//
// An Iterator is used by one goroutine at a time. A fresh one stands nowhere:
// Next and Prev require a position.
type Iterator interface {
	// First moves to the first entry.
	First() *KV
	// Last moves to the last entry.
	Last() *KV
	// SeekGE moves to the first entry at or after (key, seq): the newest
	// version of key that a reader at seq sees, or else the newest version of
	// the next key.
	SeekGE(key []byte, seq Seq) *KV
	// SeekLT moves to the last entry whose user key is less than key: the
	// oldest version of the key before.
	SeekLT(key []byte) *KV
	// Next moves one entry forward.
	Next() *KV
	// Prev moves one entry back.
	Prev() *KV
	// Err returns the error that ended the last movement, or nil. An error
	// stays until the next First, Last or seek.
	Err() error
	// Close releases what the iterator holds. The iterator is not used again.
	Close() error
}

// SeekSteps is how many steps a seek of a StepSeeker takes.
const SeekSteps = 5

// A StepSeeker is an iterator whose SeekGE can be taken in steps. Each step
// begins to load what the next one needs and does not wait for it, so that a
// merge which takes step after step, each with all its children, waits for main
// memory once a step instead of once a step and child.
//
// The steps, from 0 to SeekSteps-1, and SeekEnd all get the same arguments, and
// nothing else is called in between.
type StepSeeker interface {
	SeekStep(step int, key []byte, seq Seq)
	// SeekEnd is what SeekGE would be.
	SeekEnd(key []byte, seq Seq) *KV
}
