package sstable

import "github.com/shaledb/shale/internal/base"

// Stats counts what is read from tables. All tables of a store share one Stats.
type Stats struct {
	BlockReads     base.Counter // blocks read from files, of any kind
	BlockReadBytes base.Counter // their stored bytes
	IndexReads     base.Counter // of these, indexes that are not in memory, and partitions of indexes
	FilterReads    base.Counter // filters read, at Open or later
	ReadCalls      base.Counter // calls of ReadAt: with reading ahead fewer than blocks
	CacheHits      base.Counter // blocks found in the cache
	CacheMisses    base.Counter // blocks looked for in the cache and not found
}

// A Trace records the blocks that lookups and iterators use, in order. A nil Trace records
// nothing. It belongs to one goroutine.
type Trace struct {
	Reads []BlockRead // in the order in which they were used
}

// A BlockRead is one use of a block. A block that is used several times is in the Trace as
// often.
type BlockRead struct {
	Kind   BlockKind
	Offset int64 // in the file
	Bytes  int64 // as stored in the file
	Cached bool  // found in the cache: nothing was read
}

// add records the use of a block.
func (t *Trace) add(kind BlockKind, h handle, cached bool) {
	if t == nil {
		return
	}
	t.Reads = append(t.Reads, BlockRead{
		Kind: kind, Offset: h.offset, Bytes: int64(h.stored) + blockTail, Cached: cached,
	})
}
