package stores

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
	"sync/atomic"

	"github.com/golang/snappy"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/vfs"
)

const (
	floorBlock = 4 << 10
	floorIndex = data.KeySize + 12 // bytes for a block
	floorTail  = 32
)

var floorSums = crc32.MakeTable(crc32.Castagnoli)

// floorPerBlock is how many entries a block has.
func floorPerBlock(stride int) int { return max(1, floorBlock/stride) }

// writeFloorTable writes n entries in order.
func writeFloorTable(path string, value, n int, entry func(i int) []byte) (err error) {
	f, err := vfs.Default.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var out, index, block []byte
	var hashes []uint64
	off := int64(0)
	each := floorPerBlock(data.KeySize + value)
	for i := 0; i < n; i += each {
		block = block[:0]
		for j := i; j < min(n, i+each); j++ {
			block = append(block, entry(j)...)
			hashes = append(hashes, bloom.Hash(entry(j)[:data.KeySize]))
		}
		packed := snappy.Encode(nil, block)
		index = append(index, entry(i)[:data.KeySize]...)
		index = binary.LittleEndian.AppendUint64(index, uint64(off))
		index = binary.LittleEndian.AppendUint32(index, uint32(len(packed)))
		out = binary.LittleEndian.AppendUint32(append(out, packed...), crc32.Checksum(packed, floorSums))
		off += int64(len(packed)) + 4
		if len(out) >= 1<<20 || i+each >= n {
			if _, err := f.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	filter := bloom.AppendBlocked(nil, hashes, 10)
	tail := append(index, filter...)
	for _, x := range []int{value, n, len(index), len(filter)} {
		tail = binary.LittleEndian.AppendUint64(tail, uint64(x))
	}
	_, err = f.Write(tail)
	return err
}

// A floorTable is what is read: its index and filter are in memory.
type floorTable struct {
	f       vfs.File
	stride  int // bytes of an entry
	entries int
	keys    []uint64 // the first eight bytes of the first key of each block
	index   []byte
	filter  *bloom.Blocked
	kept    []atomic.Pointer[[]byte] // decompressed blocks; nil if they are not kept
}

// openFloorTable keeps blocks if the cache has room for all of them.
func openFloorTable(path string, cache int64) (*floorTable, error) {
	f, err := vfs.Default.Open(path)
	if err != nil {
		return nil, err
	}
	t := &floorTable{f: f}
	if err := t.open(cache); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func (t *floorTable) open(cache int64) error {
	size, err := t.f.Size()
	if err != nil {
		return err
	}
	var sizes [floorTail]byte
	if _, err := t.f.ReadAt(sizes[:], size-floorTail); err != nil {
		return err
	}
	number := func(i int) int { return int(binary.LittleEndian.Uint64(sizes[8*i:])) }
	t.stride, t.entries = data.KeySize+number(0), number(1)
	tail := make([]byte, number(2)+number(3))
	if _, err := t.f.ReadAt(tail, size-floorTail-int64(len(tail))); err != nil {
		return err
	}
	t.index = tail[:number(2)]
	for i := 0; i < len(t.index); i += floorIndex {
		t.keys = append(t.keys, binary.BigEndian.Uint64(t.index[i:]))
	}
	if cache >= int64(t.stride)*int64(t.entries) {
		t.kept = make([]atomic.Pointer[[]byte], len(t.keys))
	}
	t.filter, err = bloom.OpenBlocked(tail[number(2):])
	return err
}

// A floorCursor is at an entry of a table. It is for one goroutine.
type floorCursor struct {
	t      *floorTable
	number int    // of the block
	block  []byte // decompressed
	rest   []byte // of the block, behind the entry
	entry  []byte
	packed []byte
	room   []byte
	err    error
}

func newFloorCursor(t *floorTable) *floorCursor {
	c := data.Apart[floorCursor]()
	*c = floorCursor{t: t, number: -1}
	return c
}

// load makes block i the current one.
func (c *floorCursor) load(i int) bool {
	if i == c.number {
		return true
	}
	if i < 0 || i >= len(c.t.keys) {
		return false
	}
	if c.t.kept != nil {
		if b := c.t.kept[i].Load(); b != nil {
			c.number, c.block = i, *b
			return true
		}
	}
	c.err = c.read(i)
	return c.err == nil
}

func (c *floorCursor) read(i int) error {
	x := c.t.index[i*floorIndex+data.KeySize:]
	size := int(binary.LittleEndian.Uint32(x[8:]))
	if cap(c.packed) < size+4 {
		c.packed = make([]byte, 2*size)
	}
	packed := c.packed[:size+4]
	if _, err := c.t.f.ReadAt(packed, int64(binary.LittleEndian.Uint64(x))); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(packed[size:]) != crc32.Checksum(packed[:size], floorSums) {
		return fmt.Errorf("block %d is damaged", i)
	}
	if c.t.kept != nil {
		c.room = nil
	}
	block, err := snappy.Decode(c.room[:cap(c.room)], packed[:size])
	if err != nil {
		return err
	}
	if c.t.kept != nil {
		c.t.kept[i].Store(&block)
	} else {
		c.room = block
	}
	c.number, c.block = i, block
	return nil
}

// at moves to an offset of the current block.
func (c *floorCursor) at(off int) {
	c.entry, c.rest = c.block[off:off+c.t.stride], c.block[off+c.t.stride:]
}

func (c *floorCursor) First() bool {
	if !c.load(0) {
		return false
	}
	c.at(0)
	return true
}

func (c *floorCursor) Last() bool {
	if !c.load(len(c.t.keys) - 1) {
		return false
	}
	c.at(len(c.block) - c.t.stride)
	return true
}

func (c *floorCursor) Next() bool {
	if len(c.rest) == 0 {
		if !c.load(c.number + 1) {
			return false
		}
		c.rest = c.block
	}
	c.entry, c.rest = c.rest[:c.t.stride], c.rest[c.t.stride:]
	return true
}

func (c *floorCursor) Prev() bool {
	off := len(c.block) - len(c.rest) - c.t.stride
	if off == 0 {
		if !c.load(c.number - 1) {
			return false
		}
		off = len(c.block)
	}
	c.at(off - c.t.stride)
	return true
}

// SeekGE searches the index for the last block that begins at the key or before it.
func (c *floorCursor) SeekGE(key []byte) bool {
	word := binary.BigEndian.Uint64(key)
	i := sort.Search(len(c.t.keys), func(i int) bool {
		return c.t.keys[i] > word || c.t.keys[i] == word && bytes.Compare(c.t.index[i*floorIndex:][:data.KeySize], key) > 0
	})
	if !c.load(max(0, i-1)) {
		return false
	}
	n := len(c.block) / c.t.stride
	at := sort.Search(n, func(j int) bool { return bytes.Compare(c.block[j*c.t.stride:][:data.KeySize], key) >= 0 })
	if at == n {
		c.rest = nil
		return c.Next()
	}
	c.at(at * c.t.stride)
	return true
}

func (c *floorCursor) Key() []byte            { return c.entry[:data.KeySize] }
func (c *floorCursor) Value() ([]byte, error) { return c.entry[data.KeySize:], nil }
func (c *floorCursor) Close() error           { return c.err }
func (c *floorCursor) Refresh() error         { return nil }

// Get asks the filter before it touches the block.
func (c *floorCursor) Get(key []byte) (int, uint64, error) {
	if !c.t.filter.MayContain(key) || !c.SeekGE(key) || !bytes.Equal(c.Key(), key) {
		return Absent, 0, c.err
	}
	return found(c.entry[data.KeySize:])
}
