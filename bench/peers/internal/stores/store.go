// Package stores puts the engines behind one interface, each set up as its own
// documentation advises. ../../README.md gives the reasons.
package stores

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
)

// A Store is one engine with its data.
type Store interface {
	Open(dir string, o Options) error
	// Writer, Reader and Iterator are for one goroutine each.
	Writer() (Writer, error)
	Reader(way Way) (Reader, error)
	Iterator() (Iterator, error)
	// Flush makes a run of level 0 of what is in memory. Settle waits then until no
	// compaction runs or is due. Writers outlive both; readers and iterators are
	// closed before.
	Flush() error
	Settle() error
	Counts() Counts
	Levels() ([]results.Level, error)
	Close() error
}

// Options say what a store is opened for.
type Options struct {
	Memtable    int64
	Cache       int64 // of blocks
	FilterCache int64 // more cache for engines that keep filters and indexes in it
	Sync        bool  // every write is on disk before it is acknowledged
	Compactions bool  // automatic ones
	Reading     bool  // nothing will be written
	Hasty       bool  // Open does not wait until the filters are in memory
	Clients     int   // that run transactions at a time; 0: nothing is read before it is written
	// Quiet is how long nothing happens in a settled store, of engines that don't
	// tell whether a compaction runs.
	Quiet time.Duration
}

// A Way is how keys are looked up.
type Way int

// The ways.
const (
	// Held: the reader may look at the state of Refresh.
	Held Way = iota
	// Fresh: it sees every write that was acknowledged before.
	Fresh
	// Seeking: as Held, by the engine's second way, an iterator.
	Seeking
)

// A Writer writes for one goroutine. Keys and values may change when a call
// has returned.
type Writer interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	// Batch writes n entries as one.
	Batch(n int, entry func() (key, value []byte)) error
	Close() error
}

// Absent is the size of the value of a key that is not there.
const Absent = -1

// A Reader looks keys up. tag is what the value starts with.
type Reader interface {
	Get(key []byte) (size int, tag uint64, err error)
	Refresh() error // the reader sees what was written until now
	Close() error
}

// A ManyReader looks up many keys in one call. It returns how many of them are there.
type ManyReader interface {
	GetMany(keys [][]byte) (present int, err error)
}

// An Ability is what not every store can do.
type Ability int

// The abilities.
const (
	Transactions Ability = 1 << iota // it is Transactional
	RangeDeletes                     // its writers are RangeDeleters
	Expiry                           // its writers are Expirers
	Updates                          // it is read while it is written
)

// Has reports whether all of the others are among the abilities.
func (a Ability) Has(others Ability) bool { return a&others == others }

// A RangeDeleter is a Writer that deletes the keys from lower to upper, exclusive, whatever their number.
type RangeDeleter interface {
	DeleteRange(lower, upper []byte) error
}

// An Expirer is a Writer of values that are gone after a time.
type Expirer interface {
	PutTTL(key, value []byte, ttl time.Duration) error
}

// A Transactional is a store with serializable transactions.
type Transactional interface {
	Client() Client // for one goroutine
}

// A Client runs functions in transactions.
type Client interface {
	View(fn func(Tx) error) error
	// Update runs fn until its writes are committed: again after a conflict.
	Update(fn func(Tx) error) error
}

// A Tx is a transaction under way. Values are numbers, of 8 bytes. Keys must not change until it ends.
type Tx interface {
	Number(key []byte) (uint64, error)
	SetNumber(key []byte, n uint64) error
}

// An Iterator moves over all entries, as they were when it was made. Key and
// Value are valid until it moves.
type Iterator interface {
	First() bool
	Last() bool
	SeekGE(key []byte) bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() ([]byte, error)
	Close() error // with the error that stopped it
}

// Counts are what an engine has counted since it was opened, results.Unknown
// where it does not count.
type Counts struct {
	BlockReads     int64 // blocks that were not in the cache
	FalsePositives int64 // filters that said 'maybe' where the key was not
	PredictedFPR   float64
}

var unknownCounts = Counts{results.Unknown, results.Unknown, results.Unknown}

// Level0Runs is how many tables of a store may hold any key, below the memtable
// and above the levels.
func Level0Runs(levels []results.Level) int {
	i := slices.IndexFunc(levels, func(l results.Level) bool { return l.Level == 0 })
	if i < 0 {
		return 0
	}
	return levels[i].Runs
}

// Live is the size of all levels.
func Live(levels []results.Level) (bytes int64) {
	for _, l := range levels {
		bytes += l.Bytes
	}
	return bytes
}

// A Kind is an engine that can be measured.
type Kind struct {
	Name       string
	SeekName   string // of its second way of looking up, "" if it has one only
	Module     string // whose version the report gives
	Tree       bool   // it has no levels, and its writes are in place
	Can        Ability
	New        func() Store
	Asked      bool // it takes part only if it is named
	Bound      bool // it is no store, and is measured in the first round only
	Unverified bool // it answers anything: it measures the benchmark itself
}

// kinds are those that run if none is named, and then those that have to be.
var kinds = slices.Concat([]Kind{
	{Name: "shale", Module: "github.com/shaledb/shale", Can: Updates | Transactions | RangeDeletes | Expiry, New: func() Store { return new(shaleStore) }},
	{Name: "pebble", SeekName: "pebble, UseL6Filters", Module: "github.com/cockroachdb/pebble/v2", Can: Updates | RangeDeletes, New: func() Store { return new(pebbleStore) }},
	{Name: "badger", Module: "github.com/dgraph-io/badger/v4", Can: Updates | Transactions | Expiry, New: func() Store { return new(badgerStore) }},
	{Name: "goleveldb", Module: "github.com/syndtr/goleveldb", Can: Updates, New: func() Store { return new(goleveldbStore) }},
	{Name: "bbolt", Module: "go.etcd.io/bbolt", Tree: true, Can: Updates | Transactions, New: func() Store { return new(bboltStore) }},
}, optionalKinds, []Kind{
	{Name: "floor", Tree: true, Bound: true, New: func() Store { return new(floorStore) }},
	{Name: "pebble-apart", Asked: true, Module: "github.com/cockroachdb/pebble/v2", Can: Updates | RangeDeletes, New: func() Store { return &pebbleStore{apart: true} }},
	{Name: Null, Asked: true, Tree: true, Can: Updates | Transactions | RangeDeletes | Expiry, Unverified: true, New: func() Store { return new(nullStore) }},
})

// Null measures the benchmark itself.
const Null = "null"

// Names lists the stores that run if none is named.
func Names() []string {
	var names []string
	for _, k := range kinds {
		if !k.Asked {
			names = append(names, k.Name)
		}
	}
	return names
}

// Find returns the kind of a name.
func Find(name string) (Kind, error) {
	var names []string
	for _, k := range kinds {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("no store %q: there are %v", name, names)
}

// readBuffer is what readers that copy a value begin with.
const readBuffer = 8 << 10

// A number is a value of a Tx.
type number [8]byte

func numberOf(value []byte) (uint64, error) {
	if len(value) != len(number{}) {
		return 0, fmt.Errorf("a number of %d bytes", len(value))
	}
	return binary.LittleEndian.Uint64(value), nil
}

// maxNumbers is how many numbers a transaction may set.
const maxNumbers = 8

// numbers has room for what one transaction sets, for engines that keep values until they commit.
type numbers struct {
	room [maxNumbers]number
	n    int
}

func (s *numbers) next(n uint64) []byte {
	b := s.room[s.n][:]
	s.n++
	binary.LittleEndian.PutUint64(b, n)
	return b
}

// found describes a value to the driver.
func found(value []byte) (int, uint64, error) { return len(value), data.TagOf(value), nil }
