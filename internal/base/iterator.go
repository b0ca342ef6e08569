package base

// A KV is one entry: an internal key and its value.
type KV struct {
	InternalKey
	Value []byte
}

// An Iterator goes through internal entries in the order of Compare.
// Every source of entries is one: a memtable, a table, a run or a merge.
//
// First, Last, Next, Prev and the seeks return the entry at the new position,
// or nil if there is none. In the second case Err distinguishes the end from
// a failure. A returned KV and its slices belong to the iterator. They are
// valid until its next movement and must not be changed. After nil, Next and
// Prev return nil until First, Last or a seek finds a position again.
//
// An Iterator is used by one goroutine at a time. A
// new one has no position. Next and Prev require one.
type Iterator interface {
	// First moves to the first entry.
	First() *KV
	// Last moves to the last entry.
	Last() *KV
	// SeekGE moves to the first entry at or after (key, seq): the newest version of key that
	// a reader at seq sees. If there is none, it is the newest version of the next key.
	SeekGE(key []byte, seq Seq) *KV
	// SeekLT moves to the last entry whose user key is less
	// than key: the oldest version of the previous key.
	SeekLT(key []byte) *KV
	// Next moves one entry forward.
	Next() *KV
	// Prev moves one entry back.
	Prev() *KV
	// Err returns the error that ended the last movement, or
	// nil. The error stays until the next First, Last or seek.
	Err() error
	// Close releases the iterator's memory and files. The iterator must not be used after it.
	Close() error
}

// SeekSteps is the number of steps in one seek.
const SeekSteps = 5

// A StepSeeker is an iterator that can seek in steps. Each step begins
// to load what the next step needs, and does not wait for it. A merge takes
// each step with all its children before the next step. So it waits for
// main memory once for each step, and not once for each step and child. And it
// waits for the device once: a step asks for what is not in memory, and only
// SeekEnd waits for it. (An index partition that is not in memory is a wait of its own.)
//
// A caller calls SeekStep with 0 to SeekSteps-1 and then SeekEnd, all with the same key
// and seq, and no other method in between. Or it calls SeekLTStep and SeekLTEnd that way.
type StepSeeker interface {
	SeekStep(step int, key []byte, seq Seq)
	// SeekEnd finishes the seek and returns what SeekGE would return.
	SeekEnd(key []byte, seq Seq) *KV
	SeekLTStep(step int, key []byte)
	// SeekLTEnd finishes the seek and returns what SeekLT would return.
	SeekLTEnd(key []byte) *KV
}
