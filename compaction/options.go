package compaction

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// Options shape the tree. Zero fields have defaults.
type Options struct {
	// MemtableSize is about the size of a flushed run. Default 32 MiB.
	MemtableSize int64
	// TableSize is the target size of a table. Default 16 MiB.
	TableSize int64

	// l0Trigger is how many runs in level 0 start a compaction. More merge
	// more runs at once (less write amplification), and leave more runs for
	// lookups and scans to ask. Default 4.
	l0Trigger int
	// BaseBytes is the least target size of a level. Default 4 memtables:
	// what a compaction takes out of level 0 then matches what it finds.
	BaseBytes int64
	// multiplier is how many times larger a level is than the one above.
	// Default 10.
	multiplier int64
	// LevelRuns is how many runs a level between level 0 and the last may hold,
	// up to manifest.MaxRuns. More than 1 is lazy leveling: data is rewritten
	// less often on its way down, and lookups ask more filters. Default 1.
	LevelRuns int
	// maxBytes bounds the inputs of one compaction, as far as its inputs can
	// be chosen. Default 25 tables.
	maxBytes int64

	// DropSeq is the sequence number up to which no snapshot needs an old
	// version any more: the oldest snapshot, or base.MaxSeq if there is none.
	// 0 is the careful choice: no table of the last level is rewritten just
	// for its tombstones, since they might have to stay.
	DropSeq base.Seq

	// order, of simulations, returns the cost of inputs in place of that by
	// overlap. The least is picked.
	order func(level int, inputs []Input, cost float64) float64
}

func (o Options) withDefaults() Options {
	setDefault(&o.MemtableSize, 32<<20)
	setDefault(&o.TableSize, 16<<20)
	setDefault(&o.l0Trigger, 4)
	setDefault(&o.BaseBytes, 4*o.MemtableSize)
	setDefault(&o.multiplier, 10)
	setDefault(&o.LevelRuns, 1)
	o.LevelRuns = min(o.LevelRuns, manifest.MaxRuns)
	setDefault(&o.maxBytes, 25*o.TableSize)
	return o
}

func setDefault[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
