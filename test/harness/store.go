package harness

import (
	"iter"
	"time"

	"github.com/shaledb/shale"
)

// A Reader is what reads of a Store or of a snapshot look like to a step.
type Reader interface {
	Get(key []byte) ([]byte, error)
	AppendValue(dst, key []byte) ([]byte, error)
	ViewValue(key []byte, fn func(value []byte) error) error
	Has(key []byte) (bool, error)
	ExpiresAt(key []byte) (time.Time, error)
	Scan(r shale.Range) iter.Seq2[shale.Entry, error]
	Iterator(r shale.Range) Iterator
}

// An Iterator is what *shale.Iterator does.
type Iterator interface {
	First() bool
	Last() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	Key() []byte
	Value() []byte
	ExpiresAt() time.Time
	Err() error
	Close() error
}

// A Snapshot is what *shale.Snapshot does.
type Snapshot interface {
	Reader
	Close() error
}

// A Store is what a step uses: a real store or the Model of one.
type Store interface {
	Reader
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
	Explain(key []byte) (found bool, value []byte, err error)
	// MayContain, MayContainMany and Denied may say less than a Model knows: that a key may be there
	// says nothing.
	MayContain(key []byte) bool
	MayContainMany(keys [][]byte, out []bool)
	Denied(keys [][]byte) ([][]byte, error) // by a bundle of the exported filters
	Snapshot() (Snapshot, error)

	shale.Writer
	PutIfAbsent(key, value []byte) (bool, error)
	PutIfAbsentTTL(key, value []byte, ttl time.Duration) (bool, error)
	Write(w Write) error
	Cancelled(w Write) error // Write with a context that is over
	// Update writes w in a transaction, and calls before and after with what that sees. It may do all of it again.
	Update(w Write, before, after func(r Reader)) error
	Ingest(puts []Entry) error
	// Begin begins a transaction, whose writes have durability d if own is set.
	Begin(writable, own bool, d shale.Durability) (Txn, error)

	Sync() error
	Flush() error
	Compact(r shale.Range) error
	RebuildFilters() error
	HoldLogs(last int) // holds the current log, or that and older ones; 0: none
	Verify() error
	Tables() error // lists them and checks their order

	// Checkpoint makes a checkpoint, and UseCopy opens one that was made before.
	Checkpoint(dir string) error
	UseCopy(dir string, use func(copy Store)) error
	// ReadOnly opens the store a second time, for reading.
	ReadOnly(use func(r Reader)) error
}

// A Write is a batch.
type Write struct {
	Ops []shale.Op
	// Own says that the batch has a durability of its own.
	Own        bool
	Durability shale.Durability
	Marker     string // see Commit; may be empty
}

// Synced reports whether the batch is durable when it is acknowledged, in a store with the durability of.
func (w Write) Synced(of shale.Durability) bool {
	if w.Own {
		of = w.Durability
	}
	return of == shale.SyncEach
}

// Batch returns the batch.
func (w Write) Batch() *shale.Batch { return w.batch(Part{}) }

// batch returns the batch as one of a part.
func (w Write) batch(p Part) *shale.Batch {
	b := new(shale.Batch)
	_ = w.to(p.writer(b)) // far below every limit
	if w.Own {
		b.SetDurability(w.Durability)
	}
	return b
}

// to does the operations, until one fails.
func (w Write) to(writer shale.Writer) error {
	for _, op := range w.Ops {
		if err := op.Apply(writer); err != nil {
			return err
		}
	}
	return nil
}
