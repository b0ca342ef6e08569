package spans

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
)

// An Iterator gives the entries of a source but for those that range deletes hide which are newer than the whole source. It
// seeks over them, so it reads no block of which all entries are hidden. Entries that are newer than some range delete in
// the source are left to the caller.
type Iterator struct {
	src               base.Iterator
	finder            Finder
	smallest, largest []byte   // of the source, both inclusive; largest is nil: not known
	above, seq        base.Seq // the numbers that count; no entry has one above above, and the reader sees those up to seq
	on                bool     // it stands on an entry
	asked             bool     // the last movement has moved src
	buf               []byte
}

// Reset gives it a source, whose entries have numbers up to above, and the sets of finder. It reports whether a set has
// greater ones. If not, the iterator is of no use. largest may be nil, if it is not known.
func (it *Iterator) Reset(src base.Iterator, finder *Finder, smallest, largest []byte, above, seq base.Seq) bool {
	it.src, it.smallest, it.largest, it.above, it.seq, it.on = src, smallest, largest, above, seq, false
	it.finder.Reset()
	for _, s := range finder.sets {
		if s.last > above {
			it.finder.Add(s)
		}
	}
	return !it.finder.Empty()
}

// Forget lets go of the sets.
func (it *Iterator) Forget() { it.finder.Reset() }

// First implements base.Iterator.
func (it *Iterator) First() *base.KV { return it.SeekGE(it.smallest, base.MaxSeq) }

// Last implements base.Iterator.
func (it *Iterator) Last() *base.KV {
	if it.largest == nil {
		it.asked = true
		return it.back(it.src.Last())
	}
	return it.SeekLT(it.after(it.largest))
}

// after returns the least key above key, which is valid until the next call.
func (it *Iterator) after(key []byte) []byte {
	it.buf = append(append(it.buf[:0], key...), 0)
	return it.buf
}

// SeekGE implements base.Iterator.
func (it *Iterator) SeekGE(key []byte, seq base.Seq) *base.KV {
	it.asked = false
	if bytes.Compare(key, it.smallest) < 0 {
		key, seq = it.smallest, base.MaxSeq
	}
	if end, hidden := it.finder.Hidden(key, it.above, it.seq); hidden {
		if it.past(end) {
			return it.stand(nil)
		}
		key, seq = end, base.MaxSeq
	}
	it.asked = true
	return it.onward(it.src.SeekGE(key, seq))
}

// past reports whether a hidden part that ends at end reaches the end of the source.
func (it *Iterator) past(end []byte) bool {
	return end == nil || it.largest != nil && bytes.Compare(end, it.largest) > 0
}

// SeekLT implements base.Iterator.
func (it *Iterator) SeekLT(key []byte) *base.KV {
	it.asked = false
	if begin, hidden := it.finder.hiddenBelow(key, it.above, it.seq); hidden {
		if key = begin; bytes.Compare(key, it.smallest) <= 0 {
			return it.stand(nil)
		}
	}
	it.asked = true
	return it.back(it.src.SeekLT(key))
}

// Next implements base.Iterator.
func (it *Iterator) Next() *base.KV {
	if !it.on {
		return nil
	}
	it.asked = true
	return it.onward(it.src.Next())
}

// Prev implements base.Iterator.
func (it *Iterator) Prev() *base.KV {
	if !it.on {
		return nil
	}
	it.asked = true
	return it.back(it.src.Prev())
}

// onward goes forward from kv to the next entry that is not hidden.
func (it *Iterator) onward(kv *base.KV) *base.KV {
	for kv != nil && it.finder.Cover(kv.UserKey, it.seq) > it.above {
		end, _ := it.finder.Hidden(kv.UserKey, it.above, it.seq)
		if it.past(end) {
			it.asked = false // the end is no error of the source
			return it.stand(nil)
		}
		kv = it.src.SeekGE(end, base.MaxSeq)
	}
	return it.stand(kv)
}

// back goes back from kv to the next entry that is not hidden.
func (it *Iterator) back(kv *base.KV) *base.KV {
	for kv != nil && it.finder.Cover(kv.UserKey, it.seq) > it.above {
		begin, _ := it.finder.hiddenBelow(it.after(kv.UserKey), it.above, it.seq)
		if bytes.Compare(begin, it.smallest) <= 0 {
			it.asked = false
			return it.stand(nil)
		}
		kv = it.src.SeekLT(begin)
	}
	return it.stand(kv)
}

func (it *Iterator) stand(kv *base.KV) *base.KV {
	it.on = kv != nil
	return kv
}

// Err implements base.Iterator.
func (it *Iterator) Err() error {
	if !it.asked {
		return nil
	}
	return it.src.Err()
}

// Close implements base.Iterator.
func (it *Iterator) Close() error { return it.src.Close() }
