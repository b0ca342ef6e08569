package txn

import (
	"bytes"
	"encoding/binary"

	"github.com/google/btree"

	"github.com/shaledb/shale/internal/base"
)

// An Overlay finds the writes of a transaction by their keys, the last one of each. The writes themselves are
// operations in the bytes of a batch, which the log gets as they are. One goroutine at a time uses an Overlay and its
// iterators.
type Overlay struct {
	data  []byte // of the batch; operations that are in it stay where they are
	tree  *btree.BTreeG[place]
	pivot []byte // the key that a search compares with
}

// A place is where an operation lies. hi and lo are the first 16 bytes of its key (base.Prefix), which decide most
// comparisons.
type place struct {
	hi, lo uint64
	offset int // in data; pivotPlace: the key is pivot
}

const pivotPlace = -1

// degree is the number of children of a node. An overlay is small as a rule.
const degree = 16

// Add notes the operation at offset of data, the bytes of the batch, which takes the place of an earlier one of key.
func (o *Overlay) Add(data []byte, offset int, key []byte) {
	o.data = data
	if o.tree == nil {
		o.tree = btree.NewG(degree, o.less)
	}
	hi, lo := base.Prefix(key)
	o.tree.ReplaceOrInsert(place{hi, lo, offset})
}

// DeleteRange forgets the writes of the keys from lower to upper, which is exclusive; nil: there is no bound. data is that of
// the batch, which has a range delete now.
func (o *Overlay) DeleteRange(data, lower, upper []byte) {
	o.data = data
	if o.tree == nil {
		return
	}
	var gone []place
	o.tree.AscendGreaterOrEqual(o.at(lower), func(p place) bool {
		if upper != nil && bytes.Compare(o.key(p), upper) >= 0 {
			return false
		}
		gone = append(gone, p)
		return true
	})
	for _, p := range gone {
		o.tree.Delete(p)
	}
}

// Reset forgets all writes, and keeps memory for the next ones. Requires: nobody uses an iterator any more.
func (o *Overlay) Reset() {
	if o.tree != nil {
		o.tree.Clear(true)
	}
	o.data = nil
}

// Len returns the number of keys that are written.
func (o *Overlay) Len() int {
	if o.tree == nil {
		return 0
	}
	return o.tree.Len()
}

// Find returns what the transaction has written to key. The value is part of the batch's bytes.
func (o *Overlay) Find(key []byte) (value []byte, kind base.Kind, found bool) {
	if o.Len() == 0 {
		return nil, 0, false
	}
	p, found := o.tree.Get(o.at(key))
	if !found {
		return nil, 0, false
	}
	_, value, kind = o.operation(p.offset)
	return value, kind, true
}

// at returns a place that compares as key does, until the next call.
func (o *Overlay) at(key []byte) place {
	o.pivot = key
	hi, lo := base.Prefix(key)
	return place{hi, lo, pivotPlace}
}

func (o *Overlay) less(a, b place) bool {
	switch {
	case a.hi != b.hi:
		return a.hi < b.hi
	case a.lo != b.lo:
		return a.lo < b.lo
	}
	return bytes.Compare(o.key(a), o.key(b)) < 0
}

func (o *Overlay) key(p place) []byte {
	if p.offset == pivotPlace {
		return o.pivot
	}
	key, _, _ := o.operation(p.offset)
	return key
}

// operation decodes the operation at offset, in the form that shale.Batch has:
//
//	kind u8 | key length varint | key | (put only) value length varint | value
func (o *Overlay) operation(offset int) (key, value []byte, kind base.Kind) {
	rest := o.data[offset:]
	kind, rest = base.Kind(rest[0]), rest[1:]
	key, rest = Cut(rest)
	if kind != base.KindDelete {
		value, _ = Cut(rest)
	}
	return key, value, kind
}

// Cut returns the bytes whose length, a varint, src begins with, and what follows.
func Cut(src []byte) (b, rest []byte) {
	n, w := binary.Uvarint(src)
	end := w + int(n)
	return src[w:end:end], src[end:]
}

// An Iterator goes through the writes that an overlay had when the iterator was made, one entry a key, as a source of a
// merge. All its entries have number OwnSeq, which is above those of the store. It is valid until Reset of the overlay.
type Iterator struct {
	o    *Overlay
	tree *btree.BTreeG[place] // does not change any more
	at   place
	kv   base.KV
}

// OwnSeq is the sequence number of a transaction's own writes. No entry of a store has it or a higher one.
const OwnSeq base.Seq = 1 << 55

// NewIterator returns an iterator. Requires: Len is not 0. Making it takes constant time, however many writes there are.
func (o *Overlay) NewIterator() *Iterator {
	return &Iterator{o: o, tree: o.tree.Clone()}
}

// Find is Overlay.Find among the writes of the iterator.
func (it *Iterator) Find(key []byte) (value []byte, kind base.Kind, found bool) {
	p, found := it.tree.Get(it.o.at(key))
	if found {
		_, value, kind = it.o.operation(p.offset)
	}
	return value, kind, found
}

// stand moves to what a walk of the tree has found.
func (it *Iterator) stand(found bool) *base.KV {
	if !found {
		it.kv.UserKey = nil
		return nil
	}
	key, value, kind := it.o.operation(it.at.offset)
	it.kv = base.KV{InternalKey: base.NewKey(key, OwnSeq, kind), Value: value}
	return &it.kv
}

// First implements base.Iterator.
func (it *Iterator) First() (kv *base.KV) {
	p, ok := it.tree.Min()
	it.at = p
	return it.stand(ok)
}

// Last implements base.Iterator.
func (it *Iterator) Last() *base.KV {
	p, ok := it.tree.Max()
	it.at = p
	return it.stand(ok)
}

// SeekGE implements base.Iterator. A reader at any number sees the writes of its own transaction, so seq does not
// matter, but for 0: that means the place behind all versions of key.
func (it *Iterator) SeekGE(key []byte, seq base.Seq) *base.KV { return it.ge(it.o.at(key), seq == 0) }

// Next implements base.Iterator.
func (it *Iterator) Next() *base.KV {
	if it.kv.UserKey == nil {
		return nil
	}
	return it.ge(it.at, true)
}

// ge moves to the first write at p or, if behind, behind it.
func (it *Iterator) ge(p place, behind bool) *base.KV {
	found := false
	it.tree.AscendGreaterOrEqual(p, func(next place) bool {
		if behind && !it.o.less(p, next) {
			return true
		}
		it.at, found = next, true
		return false
	})
	return it.stand(found)
}

// SeekLT implements base.Iterator.
func (it *Iterator) SeekLT(key []byte) *base.KV { return it.lt(it.o.at(key)) }

// Prev implements base.Iterator.
func (it *Iterator) Prev() *base.KV {
	if it.kv.UserKey == nil {
		return nil
	}
	return it.lt(it.at)
}

func (it *Iterator) lt(p place) *base.KV {
	found := false
	it.tree.DescendLessOrEqual(p, func(next place) bool {
		if !it.o.less(next, p) {
			return true
		}
		it.at, found = next, true
		return false
	})
	return it.stand(found)
}

// Err implements base.Iterator.
func (it *Iterator) Err() error { return nil }

// Close implements base.Iterator.
func (it *Iterator) Close() error { return nil }
