package main

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/vfs"
)

const (
	// keysPerTable is how many entries a small table has. A table ends when its keys and
	// values have TableSize bytes, which is keysPerTable entries of keySize and smallValue.
	keysPerTable = 32
	keySize      = 16
	smallValue   = 112 // bytes of a value in a store of small tables; half of them are zero
	keysValue    = 8   // the same in a store of many keys
	tableSize    = keysPerTable * (keySize + smallValue)

	// One key of upperShare is in the last level but one. That is a little more than the
	// planner allows there, so that it always finds a compaction to do.
	upperShare = 10

	// Smaller stores have so little in the last level but one that nothing has to be compacted.
	minTables = 200
	minKeys   = 100_000
	// Larger ones would need numbers of keys that an int of 32 bits does not have.
	maxTables = 10_000_000
	maxKeys   = 1_000_000_000
)

// A spec says which store is measured.
type spec struct {
	tables int // small ones; 0: the tables have the usual size
	keys   int
}

// name is that of the store's folder.
func (s spec) name() string {
	if s.tables > 0 {
		return fmt.Sprintf("tables-%d", s.tables)
	}
	return fmt.Sprintf("keys-%d", s.keys)
}

// title is the head of the store's column.
func (s spec) title() string {
	if s.tables > 0 {
		return grouped(s.tables) + " tables"
	}
	return grouped(s.keys) + " keys"
}

// grouped formats n with a comma between thousands.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// shape returns the sizes by which the store is made, and by which compactions are picked.
// Small tables have memtables that are as much smaller than the usual ones. A store of many
// keys is made with small memtables, so that few keys are enough for two levels.
func (s spec) shape() compaction.Options {
	if s.tables > 0 {
		return compaction.Options{MemtableSize: 2 * tableSize, TableSize: tableSize}
	}
	return compaction.Options{MemtableSize: 16 << 10, TableSize: 16 << 20}
}

// making returns the options with which the store is made.
func (s spec) making() *shale.Options {
	opts := s.reading()
	opts.MemtableSize, opts.TableSize = s.shape().MemtableSize, s.shape().TableSize
	if s.tables > 0 {
		opts.BlockSize = 4 * tableSize // so that only TableSize decides where a table ends
	}
	opts.FS, opts.Exist = unsynced{vfs.Default}, shale.MustNotExist
	return opts
}

// reading returns the options with which the store is opened once it is made.
func (s spec) reading() *shale.Options {
	return &shale.Options{
		Exist: shale.MustExist, Durability: shale.SyncManual,
		CompactionWorkers: -1, // the store stays as it was made
	}
}

// writing returns the options with which a copy of the store is opened that is written to.
// What is ingested there has small tables in all stores. Syncs are left out, because they
// take the disk's time, which varies more than what is measured here.
func (s spec) writing() *shale.Options {
	opts := s.reading()
	opts.FS, opts.TableSize, opts.BlockSize = unsynced{vfs.Default}, tableSize, 4*tableSize
	return opts
}

// key appends key number i to dst. Between it and the next key is room for absent ones:
// nth, from 1 to 3, chooses one of them, and 0 the key itself. Keys are in the order of
// their numbers.
func key(dst []byte, i, nth int) []byte {
	const digits = "0123456789abcdef"
	n := uint64(i)*4 + uint64(nth)
	for shift := 4 * (keySize - 1); shift >= 0; shift -= 4 {
		dst = append(dst, digits[n>>shift&15])
	}
	return dst
}

// mix spreads the bits of n: it is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// value appends the value of key number i to dst. The first half of a long value is random.
func (s spec) value(dst []byte, i int) []byte {
	n := mix(uint64(i) + 1)
	if s.tables == 0 {
		return binary.LittleEndian.AppendUint64(dst, n)
	}
	for range smallValue / 2 / 8 {
		n = mix(n)
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return append(dst, make([]byte, smallValue/2)...)
}

// entries yields the keys with numbers from begin to end (exclusive) that belong into the
// upper level, or those that belong into the last. The slices are valid until the next one.
func (s spec) entries(begin, end int, upper bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		var k, v []byte
		for i := begin; i < end; i++ {
			if inUpper(i) != upper {
				continue
			}
			k, v = key(k[:0], i, 0), s.value(v[:0], i)
			if !yield(k, v) {
				return
			}
		}
	}
}

// inUpper reports whether key number i is in the last level but one.
func inUpper(i int) bool { return i%upperShare == upperShare-1 }
