package remote

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/vfs"
)

// What a program can choose about a store in a bucket. Each default is stated with its field and
// set in withDefaults.

// Options say how a store is kept in a bucket. The zero value is a good configuration for production;
// nil means the same. Open copies them.
type Options struct {
	// Store are the options of the local store. Shipping,
	// ReadOnly and MustExist are not for callers of this package.
	Store shale.Options

	// Ship is how often new bytes of the log go to the bucket: what a lost machine loses, unless Strict is
	// set. Shorter makes more requests, up to one each time. A store that nobody writes to makes
	// none. Default 1 s; negative: only when Store.Ship is called, writers wait (MaxLag), or too much waits (MaxKept).
	Ship time.Duration

	// Publish is how often new tables go to the bucket, in a step that can be restored. They also go when
	// tables were ingested, 10 s after the step before at the earliest, or 1 s if writers wait for them.
	// Tables that a compaction merges meanwhile never travel, so longer makes less traffic; and a restore
	// then replays more of the log. Default 1 min; negative: only when Store.Publish is called, or writers
	// wait for tables (MaxLag, Strict).
	Publish time.Duration

	// Flush is the age at which the memtable is written to a table, so that a restore replays no older
	// writes. Default 15 min; negative: only when it is full.
	Flush time.Duration

	// Strict acknowledges only writes that are in the bucket. It sets Store.Durability to SyncEach. A
	// write takes as long as a request to the bucket then; any number of writers share one.
	Strict bool

	// MaxLag makes writers wait while the bucket lacks writes that are older than this. 0: never. The tables of an
	// ingestion count too: until they are in a step, nothing behind it can be restored.
	MaxLag time.Duration

	// MaxKept is how many bytes of logs wait on the local disk for a bucket that does not answer, besides the
	// current one; and never more than the disk has left. Beyond that they are let go (EventLetGo), so that a backup
	// does not stop the program that it is for. The bucket gets what was in them with the tables of the next step, and
	// no restore can go to a point in between. MaxLag makes writers wait instead. Default 10 GiB; negative: they wait
	// for ever, and may fill the disk.
	MaxKept int64

	// LocalBytes is how many bytes of tables stay on the local disk. Beyond that the Store lets go of tables that the
	// bucket has, those of the last level first and of a level those that were read least of late, and reads of them ask
	// the bucket. An eighth, at most 1 GiB, is kept free for tables that come. Filters and indexes of all tables
	// stay, which are 2 to 4 % of the store, and so does a cache of pages, a sixteenth of LocalBytes: both count, and if
	// they leave no room for tables, Status.Failing says how much would do. They are in the subdirectory bucket, which must
	// not be the directory of a bucket, or lie in one.
	// Tables that the bucket lacks are uploaded at once when the room is short, and flushes and compactions wait for
	// that; if the bucket is away, MaxKept more may be taken. Tables that only an iterator needs and that the bucket has
	// never had don't count. Store.FilterBits is 16 by default then, since each false positive is a request. At least eight
	// memtables. Default 0: all tables stay.
	LocalBytes int64

	// Retain is how far back restores go: older steps are collected. Default 24 h; negative: nothing is
	// ever collected.
	Retain time.Duration

	// Uploads is how many tables are uploaded at the same time. Default 4.
	Uploads int

	// OnEvent, if not nil, is called for what happens in the background. Calls may come from several
	// goroutines at once. They must return soon, and must not call the Store.
	OnEvent func(Event)

	// Settings that only tests of this package make.
	testing testOptions
}

// testOptions are set only by tests.
type testOptions struct {
	segment   int64         // the usual size of a segment in bytes; 0: segmentSize
	patience  time.Duration // how long a request of the background is tried again; 0: backgroundPatience
	closeWait time.Duration // how long Close waits for the bucket; 0: closeWait
	states    uint64        // a state is written after each so many steps; 0: restore.StateEvery
	collect   time.Duration // how often the bucket is collected; 0: collectEvery
}

const (
	// segmentSize is the size that segments have at most, if their first record is not longer.
	segmentSize = 8 << 20
	// backgroundPatience is how long a request of the background is tried again. Then the whole work is tried again,
	// later each time.
	backgroundPatience = 15 * time.Second
	// closeWait is how long Close waits for a bucket that does not answer.
	closeWait = 10 * time.Second
	// collectEvery is how often the bucket is collected.
	collectEvery = time.Hour
)

// withDefaults returns a copy of o (which may be nil) with every unset field filled in, or an error
// that names the field at fault.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	setDefault(&c.Ship, time.Second)
	setDefault(&c.Publish, time.Minute)
	setDefault(&c.Flush, 15*time.Minute)
	setDefault(&c.MaxKept, 10<<30)
	setDefault(&c.Retain, 24*time.Hour)
	setDefault(&c.Uploads, 4)
	setDefault(&c.testing.segment, segmentSize)
	setDefault(&c.testing.states, restore.StateEvery)
	setDefault(&c.testing.patience, backgroundPatience)
	setDefault(&c.testing.closeWait, closeWait)
	setDefault(&c.testing.collect, collectEvery)
	setDefault(&c.Store.FS, vfs.Default)
	if c.Strict {
		c.Store.Durability = shale.SyncEach
	}
	return c, c.validate()
}

// setDefault sets a field that has its zero value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate returns an error that names the field at fault. Fields of the local store that this package sets itself must be
// unset: what a program has set there would be lost without a word.
func (o *Options) validate() error {
	switch {
	case o.Store.Shipping.Gate != nil || o.Store.Shipping.FirstFileNum != 0 || o.Store.Shipping.HoldLogs != 0:
		return optionError("Store", errors.New("it has Shipping, which this package sets"))
	case o.Store.ReadOnly || o.Store.Exist == shale.MustExist:
		return optionError("Store", errors.New("it has ReadOnly or MustExist, which are for stores that are not kept in a bucket: use OpenReader to read"))
	case o.MaxLag < 0:
		return optionError("MaxLag", errors.New("it is negative"))
	case o.LocalBytes < 0 || o.LocalBytes > 0 && o.LocalBytes < 8*o.memtableSize():
		return optionError("LocalBytes", fmt.Errorf("it is less than eight memtables (%d bytes)", 8*o.memtableSize()))
	case o.LocalBytes > 0 && o.Store.Shipping.Clock != nil:
		return optionError("LocalBytes", errors.New("the store is that of a group's member (Store.Shipping has a Clock): its snapshots are checkpoints, which need all tables in the directory"))
	case o.Uploads < 0:
		return optionError("Uploads", errors.New("it is negative"))
	}
	return nil
}

// usualMemtable is the default of shale.Options.MemtableSize.
const usualMemtable = 32 << 20

// memtableSize returns the size of the memtables of the local store.
func (o *Options) memtableSize() int64 {
	if o.Store.MemtableSize > 0 {
		return o.Store.MemtableSize
	}
	return usualMemtable
}

// optionError returns the error of a field.
func optionError(field string, err error) error {
	return fmt.Errorf("remote: option %s: %w", field, err)
}
