package compaction

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// Options set the sizes of the tree. A field that is 0 or less gets its default.
type Options struct {
	// MemtableSize is about the size of a flushed run in bytes. Default 32 MiB.
	MemtableSize int64
	// TableSize is the target size of a table in bytes, in the upper levels and in small
	// stores. Tables of large levels are up to 8 times as large: see shape. Default 16 MiB.
	TableSize int64

	// Unfiltered says that tables have no filters, so a lookup reads a block
	// in each run of level 0. Level 0 then holds fewer runs: see Level0Trigger.
	Unfiltered bool
	// ManyReads says that reads have spent much on the runs of level 0 while the last
	// memtable filled. Level 0 then holds fewer runs too.
	ManyReads bool

	// Level0Trigger is the number of runs in level 0 at which a compaction starts. With
	// a higher number each compaction merges more runs, so write amplification is
	// lower. But lookups and scans have more runs to read: PickOftenRead starts
	// earlier if there are many of them. Default Level0Runs, or 4 if Unfiltered or ManyReads.
	Level0Trigger int
	// BaseBytes is the smallest target size of a level in bytes. Default 4 memtables:
	// then a compaction of level 0 is about as large as the data that it is merged with.
	BaseBytes int64
	// multiplier is how many times larger a level is than the level above it. Default 10.
	multiplier int64
	// LevelRuns is how many runs a level between level 0 and the last may hold,
	// up to manifest.MaxRuns. More than 1 is lazy leveling: data is rewritten
	// less often on its way down, but lookups ask more filters. Default: 1, or
	// 2 in a large store (see runsBySize). Only tests and simulations set it.
	LevelRuns int
	// levelTables is how many tables a large level has, if they are not too large
	// then: see shape. Default 1024.
	levelTables int64
	// maxBytes bounds the inputs of one compaction, except those that it can't do without. It
	// is for tables of TableSize, and grows with the tables of the level that the compaction
	// writes to. Default 25 tables.
	maxBytes int64
	// level0Bytes bounds what one compaction takes from level 0, in the same way. Default
	// maxBytes, or two times BaseBytes if that is more: level 0 is due at BaseBytes, and
	// one compaction of all of it writes less than several.
	level0Bytes int64

	// DropSeq is the sequence number up to which no snapshot needs an old version any
	// more. It is the oldest snapshot, or base.MaxSeq if there is none. With 0 no table of
	// the last level is rewritten just for its tombstones, since they might have to stay.
	DropSeq base.Seq
	// Snapshots are the sequence numbers of all snapshots, ascending, for range deletes.
	Snapshots []base.Seq
	// Hidden returns about what part of a table range deletes hide that are newer than all of it
	// and have numbers up to seen, and how many parts of the keys they cover there. nil: it is not
	// known, and no table is rewritten for that.
	Hidden func(t *manifest.Table, seen base.Seq) (share float64, parts int)

	// Clock is the time, in milliseconds since the beginning of 1970, up to which what expires is over
	// for all readers. 0: nothing is.
	Clock int64

	// order is set by simulations only. It replaces the cost that pickLevel
	// computes for the inputs. The inputs with the lowest cost are picked.
	order func(level int, inputs []Input, cost float64) float64
}

// Level0Runs is the number of runs at which level 0 of a store with filters is
// compacted, if neither its size nor its readers ask for it earlier. Writers have
// to be held back at a higher number only. docs/decisions/0006 has measurements.
const Level0Runs = 12

// fewRuns takes the place of Level0Runs in a store without filters, and next to many reads.
const fewRuns = 4

// withDefaults returns o with the defaults for the fields that are
// not set, except LevelRuns, which depends on the version.
func (o Options) withDefaults() Options {
	setDefault(&o.MemtableSize, 32<<20)
	setDefault(&o.TableSize, 16<<20)
	if o.Unfiltered || o.ManyReads {
		setDefault(&o.Level0Trigger, fewRuns)
	}
	setDefault(&o.Level0Trigger, Level0Runs)
	setDefault(&o.BaseBytes, 4*o.MemtableSize)
	setDefault(&o.multiplier, 10)
	setDefault(&o.levelTables, 1024)
	setDefault(&o.maxBytes, 25*o.TableSize)
	setDefault(&o.level0Bytes, max(o.maxBytes, 2*o.BaseBytes))
	return o
}

const (
	// lazyFrom is the size of the last level, as a multiple of BaseBytes, from which
	// on the levels above it may hold lazyRuns runs. That is 32 GiB with the defaults
	// of a store. There are three or more such levels then. docs/decisions/0007 has
	// what the second run saves, and what it costs.
	lazyFrom = 256
	lazyRuns = 2
)

// runsBySize returns LevelRuns for a store that sets none. It depends on the size
// of the last level, which has most of the data. A store whose levels hold several
// runs already keeps them until it is half as large: else a store that is about as
// large as the limit would merge its runs and begin new ones again and again.
func runsBySize(v *manifest.Version, baseBytes int64) int {
	limit := lazyFrom * baseBytes
	for level := 1; level < lastLevel; level++ {
		if len(v.Levels[level].Runs) > 1 {
			limit = lazyFrom / 2 * baseBytes
		}
	}
	if v.Bytes(lastLevel) < limit {
		return 1
	}
	return lazyRuns
}

// forVersion returns o with the defaults for the fields
// that are not set, which depend on the version too.
func (o Options) forVersion(v *manifest.Version) Options {
	o = o.withDefaults()
	if o.LevelRuns <= 0 {
		o.LevelRuns = runsBySize(v, o.BaseBytes)
	}
	o.LevelRuns = min(o.LevelRuns, manifest.MaxRuns)
	return o
}

func setDefault[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
