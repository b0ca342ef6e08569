package shale

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// This file has the options of a store, their defaults and their limits.

// Options say how a store behaves and what it may use. The zero value is a
// good configuration for production; nil means the same. Open copies them.
//
// Everything here may differ from one Open to the next: nothing of it is
// stored, and files written under other options stay readable.
type Options struct {
	// Behaviour.

	// ReadOnly opens the store as it is on disk at this moment. It takes no lock and writes
	// nothing, also next to a program that has the store open for writing: DB.Advance then shows
	// what that program has done since. Writing methods return ErrReadOnly. MaxOpenFiles says how
	// many files the handle keeps open, and what follows if it needs more.
	ReadOnly bool

	// Exist says whether the store must be there, or must not. Default: it is created if needed.
	Exist Existence

	// LockTimeout is how long Open waits for another process, or another handle of this
	// one, to give the store up. 0: Open fails at once.
	LockTimeout time.Duration

	// Durability says when a write is on disk. Default SyncEach. A Batch can
	// choose for itself.
	Durability Durability

	// SyncEvery is the interval of SyncPeriodic. Default 100 ms.
	SyncEvery time.Duration

	// KeepLog is how many bytes of logs are kept although all of their writes are in tables, the newest ones
	// first. So DB.Changes reaches back further, also over restarts. A log has about as many bytes as
	// MemtableSize; of a log that does not fit nothing is kept. It takes its room also if the disk is full, and
	// the next Open with less gives it back. Default 0.
	KeepLog int64

	// Shipping is for programs that copy the logs of the store elsewhere while it is written, as
	// package remote does. See also ShippingOf.
	Shipping ShippingOptions

	// FS is the file system. Default: the operating system's. vfs.NewMem()
	// gives a store in memory, and package vfs/crypt one that is encrypted.
	FS vfs.FS

	// Logger gets flushes and compactions at level Debug, stalls at Warn, background errors
	// and damage at Error. Default: errors, and filters that are unusable or worse than
	// predicted, go to slog.Default(), unless OnEvent is set, so that they do not go unnoticed.
	Logger *slog.Logger

	// OnEvent, if not nil, is called for everything that happens in the
	// background. Calls may come from several goroutines at once and must
	// return fast; they must not call the store. If OnEvent or the Logger
	// panics or calls runtime.Goexit, the store goes on and reports it once.
	OnEvent func(Event)

	// Resources.

	// MemtableSize is how many bytes of recent writes are kept in memory
	// before they are flushed to a table. More makes fewer, larger flushes
	// and less write amplification; up to three such memtables may exist, and
	// their logs are replayed after a crash. Default 32 MiB, at least 4 KiB,
	// at most 1 GiB.
	MemtableSize int64

	// CacheSize is how many bytes of uncompressed data blocks are kept.
	// Default 64 MiB; negative: none. Filters are not in it, and indexes only as far
	// as IndexMemory leaves them out of memory.
	CacheSize int64

	// FilterBits is the filter memory in bits a key, averaged over the store:
	// small young runs get more, the last level a little less, so that the
	// false positives of all runs add up to the least. Default 10 (about
	// 1.4 % of absent keys cost a block read); negative: no filters are
	// written, and those that tables have are not loaded.
	FilterBits float64

	// FilterMemory is the most bytes that resident filters may take; 0: no
	// limit. It overrides FilterBits for tables written from now on. Of what
	// does not fit, second units of filters are left on disk, and if that is
	// not enough whole filters, those of the deepest level first. See also
	// ShippingOptions.FiltersInFiles.
	FilterMemory int64

	// CompactionWorkers is how many goroutines compact at most, callers of Compact not
	// counted. Default: half the CPUs, at least 1; negative: no automatic compaction. A
	// store that is only read is compacted too, once its reads have paid for it.
	CompactionWorkers int

	// Layout of what is written from now on.

	// BlockSize is the target size of a data block in bytes before
	// compression: what a lookup reads from disk. Smaller blocks make
	// lookups cheaper and indexes larger. Default 4 KiB, from 256 B to 1 MiB.
	BlockSize int

	// TableSize is the target size of a table in bytes. Default 16 MiB, from
	// 4 KiB to 1 TiB. Each table costs a file and a sync of it, so a table
	// should hold many values. Where a level has more than about 1,000 tables,
	// compactions write larger ones instead, up to 8 times as large. Ingest
	// never does.
	TableSize int64

	// Compression of data blocks. Default Snappy.
	Compression Compression

	// Tuning is for the few programs that need it.
	Tuning Tuning

	// Settings that only tests of this package make.
	testing testOptions
}

// Existence says what Open expects in its directory.
type Existence int

// What Open expects.
const (
	MayExist     Existence = iota // Open creates the store if there is none
	MustExist                     // Open fails with fs.ErrNotExist if there is no store
	MustNotExist                  // Open fails with fs.ErrExist if there is one
)

// Tuning has options that few programs need. Like the others they may differ from one Open to the
// next.
type Tuning struct {
	// MaxOpenFiles is how many files of tables, and of filters next to them, are kept open. At
	// least 16; default 1000. With ReadOnly the default is half of the files that the process may
	// have open. The limit matters more there: a writer next to the handle may remove a table
	// that is closed. A lookup, and a Scan that begins, then advance by themselves (see
	// DB.Advance). A Snapshot or an Iterator that still needs the table can't, and neither can
	// Verify and ExportFilters: they return an error that wraps fs.ErrNotExist and names this
	// option. A handle that keeps all its files open, about one for 16 MiB, has no such errors.
	MaxOpenFiles int

	// IndexMemory is the most bytes that resident indexes may take; 0: no limit. They take
	// about a hundredth of the tables. Indexes that do not fit are read when they are needed,
	// through the block cache; those of the deepest level are the first. With a limit, tables
	// of the last level are written with an index in partitions of 4 KiB: only the list of
	// these needs memory, and a lookup whose partition is not in the cache reads it alone. Of
	// a table that was written without a limit, such a lookup reads the whole index.
	IndexMemory int64

	// LastLevelFilter is the kind of the filters of the last level, where most
	// of the filter memory goes. Default BlockedFilter; FuseFilter has a third
	// to two thirds of its false positives in the same memory and costs more CPU.
	LastLevelFilter FilterKind

	// FilterHash is the hash function of filters written from now on. Default Murmur3.
	// SipHash is for stores whose keys are chosen by strangers.
	FilterHash FilterHash

	// FilterPrefix says which prefixes of keys are in filters besides the keys, so that a
	// Scan inside a prefix that is absent reads nothing. Each prefix takes the memory of a
	// key. Default: none.
	FilterPrefix PrefixRule
}

// testOptions are set only by tests.
type testOptions struct {
	minPrepared int64 // 0: minPrepared
	noMap       bool  // write the log through write calls even where it could be mapped
	now         func() time.Time
	seed        uint64        // of the store id; 0: from the clock
	session     func() uint64 // returns the id of the next session; nil: a random one
	baseSize    int64         // of the first level below level 0; 0: four memtables
	runs        int           // that a level may hold; 0: the default of package compaction
	tailChunk   int           // bytes of a chunk of commit.Tail; 0: the default
	level0      int           // runs at which level 0 is compacted; 0: the default of package compaction
}

// Durability says when a write is on disk, that is, survives a crash of the
// machine. After a crash of the process alone every acknowledged write
// survives under all of them. In every store the writes that survive are the
// first ones, up to some point in the order of commits.
//
// [Options.Durability] also says when readers see a write. With [SyncEach] they see
// a write only once it is on disk, unless its batch chose another durability for
// itself. With the others they see every write as soon as it is in the log. A
// batch that chose SyncEach is on disk, with all that was written before it, when
// Write returns; readers may see it earlier, and it holds up no other writer.
type Durability int

// The durabilities.
const (
	// SyncEach: on disk before it is acknowledged. Concurrent writers share
	// one fsync.
	SyncEach Durability = iota
	// SyncPeriodic: on disk at most Options.SyncEvery later.
	SyncPeriodic
	// SyncManual: on disk when Sync, Flush or Close says so.
	SyncManual
)

func (d Durability) known() bool { return d >= SyncEach && d <= SyncManual }

// Compression is how data blocks are compressed: one of the variables below, which
// can be compared. A block that does not shrink by an eighth is stored as it is,
// whatever the choice. Every program reads blocks of all kinds; only one that names
// Zstd links its encoder, a quarter of a megabyte.
type Compression struct{ choice *compressionChoice }

// A compressionChoice describes a Compression other than the default.
type compressionChoice struct {
	name  string
	codec *sstable.Codec // nil: none
}

// The compressions. They are variables only for the linker's sake: do not assign
// to them.
var (
	Snappy        = Compression{}                 // fast; the default
	NoCompression = Compression{&noCompression}   // for values that are compressed already
	Zstd          = Compression{&zstdCompression} // smaller and slower
)

var (
	noCompression   = compressionChoice{name: "none"}
	zstdCompression = compressionChoice{name: "zstd", codec: &sstable.ZstdCodec}
)

// String returns "snappy", "none" or "zstd".
func (c Compression) String() string {
	if c.choice == nil {
		return "snappy"
	}
	return c.choice.name
}

func (c Compression) codec() *sstable.Codec {
	if c.choice == nil {
		return &sstable.SnappyCodec
	}
	return c.choice.codec
}

// FilterKind is how filters work. What was written under one choice is read
// under all.
type FilterKind int

// The kinds of filters.
const (
	// BlockedFilter: a blocked Bloom filter. One cache line a probe, cheap to
	// build, and its second half can leave memory and come back.
	BlockedFilter FilterKind = iota
	// FuseFilter: a binary fuse filter. About 9 bits a key give 0.4 % false positives,
	// where a blocked filter of 10 bits gives 1 %. A probe reads three cache lines.
	// Building takes five to ten times as long, and 36 bytes of memory a key until it is
	// done.
	FuseFilter
)

// FilterHash is the hash function of filters. What was written under one
// choice is read under all, at the cost of a second hash.
type FilterHash int

// The hash functions.
const (
	// Murmur3: MurmurHash3 x64 128, the first 64 bits.
	Murmur3 FilterHash = iota
	// XXH3: XXH3-64. Faster than murmur3 for keys of 16 bytes and more: it takes
	// two thirds of the time there, half of it for 100 bytes.
	XXH3
	// SipHash: SipHash-1-3 with a secret of the store. With the others, somebody who may
	// choose keys can make any number of absent keys that every filter lets pass and that
	// cost a block read each. With SipHash that is not possible. It takes about 4 ns more a
	// lookup for keys of 16 bytes, 7 for 100.
	SipHash
)

// id returns the number by which package bloom knows the function.
func (h FilterHash) id() bloom.HashID {
	switch h {
	case XXH3:
		return bloom.HashXXH3
	case SipHash:
		return bloom.HashSipHash
	}
	return bloom.HashMurmur3
}

// Limits, in bytes.
const (
	MaxKeySize   = 1<<16 - 1 // of a key: 64 KiB less 1
	MaxValueSize = 256 << 20 // of a value: 256 MiB
	MaxBatchSize = 512 << 20 // of a batch, or of what a transaction writes: 512 MiB
)

// maxFirstFileNum leaves 2^36 numbers up to the largest that names of files may have.
const maxFirstFileNum = 1<<60 - 1<<36

// withDefaults returns a copy of o (which may be nil) with every unset field
// filled in, or an error that names the field at fault.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	setDefault(&c.SyncEvery, 100*time.Millisecond)
	setDefault(&c.MemtableSize, 32<<20)
	setDefault(&c.CacheSize, 64<<20)
	setDefault(&c.FilterBits, 10)
	if c.ReadOnly {
		setDefault(&c.Tuning.MaxOpenFiles, filecache.HalfOfProcess())
	}
	setDefault(&c.Tuning.MaxOpenFiles, 1000)
	setDefault(&c.CompactionWorkers, max(1, runtime.GOMAXPROCS(0)/2))
	setDefault(&c.BlockSize, 4<<10)
	setDefault(&c.TableSize, 16<<20)
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.testing.session == nil {
		c.testing.session = func() uint64 { return rand.Uint64() | 1 }
	}
	if c.testing.now == nil {
		c.testing.now = time.Now
	}
	return c, c.validate()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	switch {
	case o.Exist < MayExist || o.Exist > MustNotExist:
		return optionError("Exist", fmt.Sprintf("is unknown: %d", o.Exist))
	case o.Exist == MustNotExist && o.ReadOnly:
		return optionError("Exist", "is MustNotExist, which contradicts ReadOnly")
	case o.LockTimeout < 0:
		return optionError("LockTimeout", "is negative")
	case o.KeepLog < 0:
		return optionError("KeepLog", fmt.Sprintf("is %d bytes, below 0", o.KeepLog))
	case o.Shipping.FirstFileNum > maxFirstFileNum:
		return optionError("Shipping.FirstFileNum", fmt.Sprintf("is %d, above 2^60 - 2^36", o.Shipping.FirstFileNum))
	case !o.Durability.known():
		return optionError("Durability", fmt.Sprintf("is unknown: %d", o.Durability))
	case o.SyncEvery < 0:
		return optionError("SyncEvery", "is negative")
	case o.MemtableSize < 4<<10 || o.MemtableSize > 1<<30:
		return optionError("MemtableSize", fmt.Sprintf("is %d, not in [4 KiB, 1 GiB]", o.MemtableSize))
	case math.IsNaN(o.FilterBits) || o.FilterBits > 64:
		return optionError("FilterBits", fmt.Sprintf("is %v, above 64", o.FilterBits))
	case o.FilterMemory < 0:
		return optionError("FilterMemory", "is negative")
	case o.Tuning.IndexMemory < 0:
		return optionError("Tuning.IndexMemory", "is negative")
	case o.Tuning.LastLevelFilter < BlockedFilter || o.Tuning.LastLevelFilter > FuseFilter:
		return optionError("Tuning.LastLevelFilter", fmt.Sprintf("is unknown: %d", o.Tuning.LastLevelFilter))
	case o.Tuning.FilterHash < Murmur3 || o.Tuning.FilterHash > SipHash:
		return optionError("Tuning.FilterHash", fmt.Sprintf("is unknown: %d", o.Tuning.FilterHash))
	case !o.Tuning.FilterPrefix.rule.Valid():
		return optionError("Tuning.FilterPrefix", fmt.Sprintf("is %v, with a length above %d or a count above %d, or below 1",
			o.Tuning.FilterPrefix, base.MaxPrefixLength, base.MaxPrefixCount))
	case o.Tuning.MaxOpenFiles < 16:
		return optionError("Tuning.MaxOpenFiles", fmt.Sprintf("is %d, below 16", o.Tuning.MaxOpenFiles))
	case o.BlockSize < 256 || o.BlockSize > 1<<20:
		return optionError("BlockSize", fmt.Sprintf("is %d, not in [256 B, 1 MiB]", o.BlockSize))
	case o.TableSize < 4<<10 || o.TableSize > 1<<40: // compactions calculate with sums of many tables
		return optionError("TableSize", fmt.Sprintf("is %d, not in [4 KiB, 1 TiB]", o.TableSize))
	}
	return nil
}

// indexPartition returns the size of the partitions of an index in bytes, for a table of a
// level; 0: the default of package sstable. The indexes of the last level are the first that
// IndexMemory has no room for.
func (o *Options) indexPartition(level int) int {
	if o.Tuning.IndexMemory > 0 && level == NumLevels-1 {
		return 4 << 10
	}
	return 0
}

func optionError(field, what string) error {
	return fmt.Errorf("shale: option %s %s", field, what)
}

// A PrefixRule says what the prefix of a key is. The zero rule: keys have none.
// Tables remember by which rule they were written, so the rule may differ from
// one Open to the next.
type PrefixRule struct{ rule base.PrefixRule }

// FixedPrefix is the rule of the first n bytes. A shorter key has no prefix.
func FixedPrefix(n int) PrefixRule {
	if n <= 0 {
		n = -1 // not a rule: Open refuses it
	}
	return PrefixRule{base.PrefixRule{Length: n}}
}

// DelimitedPrefix is the rule of what comes before the nth occurrence of a
// delimiter, and the delimiter: with ':' and 1, "user:" of "user:42". A key
// with fewer of them has no prefix. n is 1 to 255.
func DelimitedPrefix(delimiter byte, n int) PrefixRule {
	if n <= 0 {
		n = -1
	}
	return PrefixRule{base.PrefixRule{Count: n, Delimiter: delimiter}}
}

// String returns the rule as a program would write it.
func (r PrefixRule) String() string {
	switch b := r.rule; {
	case b.Count != 0:
		return fmt.Sprintf("DelimitedPrefix(%q, %d)", b.Delimiter, b.Count)
	case b.Length != 0:
		return fmt.Sprintf("FixedPrefix(%d)", b.Length)
	}
	return "none"
}

// planOptions translates the options for the planning of compactions. DropSeq is the number
// of the oldest snapshot, so each plan asks again.
func (db *DB) planOptions() compaction.Options {
	snapshots, _ := db.snapshots.List()
	return compaction.Options{
		Snapshots:     snapshots,
		MemtableSize:  db.opts.MemtableSize,
		TableSize:     db.opts.TableSize,
		BaseBytes:     db.opts.testing.baseSize,
		LevelRuns:     db.opts.testing.runs,
		Level0Trigger: db.opts.testing.level0,
		DropSeq:       db.snapshots.Oldest(),
		Clock:         db.overForAll(),
		Unfiltered:    db.opts.FilterBits < 0,
		ManyReads:     db.scheduler.Reads.Many.Load(),
	}
}
