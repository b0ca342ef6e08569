package sstable

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A remoteSource is a table on another machine, whose bytes from near up are on this one. It notes the stream that was opened.
type remoteSource struct {
	*bytes.Reader
	near    int64 // -1: none are
	nearErr error
	asked   int // calls of ReadNear
	streams []*remoteStream
	local   bool // there is no stream
	plain   int  // reads of data blocks without a stream
	data    int64

	flipped   map[int64]bool // offsets of bytes that come with wrong bits; after Refetch they come right
	sticky    bool           // they don't
	from, to  int64          // the last read
	refetches int
}

type remoteStream struct {
	src            *remoteSource
	end            int64
	from, to, read int64 // what was read: from where, up to where, and how much
	closed         bool
	err            error
}

func (s *remoteSource) ReadAt(p []byte, off int64) (int, error) {
	if off < s.data {
		s.plain++
	}
	return s.fetch(p, off)
}

// fetch is a ReadAt on whose way bytes change.
func (s *remoteSource) fetch(p []byte, off int64) (int, error) {
	n, err := s.Reader.ReadAt(p, off)
	s.from, s.to = off, off+int64(n)
	for at := range s.flipped {
		if i := at - off; i >= 0 && i < int64(n) {
			p[i] ^= 4
		}
	}
	return n, err
}

// Refetch makes that the bytes come right that the last reads had.
func (s *remoteSource) Refetch() error {
	if s.local {
		return vfs.ErrUnsupported
	}
	s.refetches++
	maps.DeleteFunc(s.flipped, func(at int64, _ bool) bool { return !s.sticky && at >= s.from && at < s.to })
	return nil
}

func (s *remoteSource) ReadNear(p []byte, off int64) error {
	if s.asked++; s.near < 0 || off < s.near {
		return vfs.ErrUnsupported
	}
	if s.nearErr != nil && len(p) > 0 {
		return s.nearErr
	}
	_, err := s.Reader.ReadAt(p, off)
	return err
}

func (s *remoteSource) Stream(end int64) vfs.Stream {
	if s.local {
		return nil
	}
	st := &remoteStream{src: s, end: end, from: -1}
	s.streams = append(s.streams, st)
	return st
}

func (st *remoteStream) ReadAt(p []byte, off int64) (int, error) {
	if st.from < 0 {
		st.from = off
	}
	st.to, st.read = max(st.to, off+int64(len(p))), st.read+int64(len(p))
	if st.err != nil {
		return 0, st.err
	}
	return st.src.fetch(p, off)
}

func (st *remoteStream) Close() error {
	st.closed = true
	return nil
}

// remoteTable opens a table of n keys, with its entries, of which nothing but the end is near.
func remoteTable(t testing.TB, n int, w WriterOptions, o ReaderOptions) (*Reader, *remoteSource, []entry) {
	t.Helper()
	var list []entry
	for i := range n {
		list = append(list, entry{base.NewKey(fmt.Appendf(nil, "key%08d", i), 7, base.KindPut), bytes.Repeat(fmt.Append(nil, i), 12)})
	}
	b, info := writeFile(t, w, list)
	src := &remoteSource{Reader: bytes.NewReader(b)}
	o.Num, o.StoreID, o.Size, o.Cache = testNum, testStore, info.Size, cache.New(1<<20)
	r, err := Open(src, o)
	if err != nil {
		t.Fatal(err)
	}
	src.data = r.Props().DataBytes
	src.near = src.data
	return r, src, list
}

// passOver walks from lower up to the first key at or after upper, and returns how many keys come before it.
func passOver(t *testing.T, r *Reader, lower, upper []byte) (n int, err error) {
	t.Helper()
	it := r.NewIteratorWith(nil, IterOptions{NoFill: true, Readahead: 16 << 10, Upper: upper})
	kv := it.SeekGE(lower, base.MaxSeq)
	for ; kv != nil && (upper == nil || bytes.Compare(kv.UserKey, upper) < 0); kv = it.Next() {
		n++
	}
	return n, errors.Join(it.Err(), it.Close())
}

// TestPass_Stream: a pass over a table that is elsewhere takes one stream from its first block to the block in which it ends, or
// the one after that, and closes it, whatever the index is like.
func TestPass_Stream(t *testing.T) {
	for _, partition := range []int{0, 512} {
		r, src, list := remoteTable(t, 9000, WriterOptions{IndexPartition: partition, FilterBits: 10}, ReaderOptions{})
		if levels := r.foot.levels; levels != min(2, 1+partition) {
			t.Fatalf("the index has %d levels", levels)
		}
		data := src.data
		for _, c := range []struct{ from, to int }{{0, 9000}, {0, 3000}, {3000, 9000}, {4000, 4001}, {8999, 9000}, {0, 1}, {2000, 7000}} {
			lower, upper := list[c.from].key.UserKey, []byte(nil)
			if c.to < len(list) {
				upper = list[c.to].key.UserKey
			}
			src.streams, src.plain = nil, 0
			n, err := passOver(t, r, lower, upper)
			if err != nil || n != c.to-c.from || len(src.streams) != 1 || src.plain > 0 {
				t.Fatalf("from %d to %d: %d keys, %v; %d streams, %d other reads", c.from, c.to, n, err, len(src.streams), src.plain)
			}
			st := src.streams[0]
			share := data * int64(c.to-c.from) / 9000
			const slack = 4 * 4096 // the blocks at both ends
			if !st.closed || st.end > data || st.to > st.end || st.end-st.from > share+slack || st.read > share+share/4+slack {
				t.Errorf("from %d to %d, %d bytes of %d: a stream from %d to %d, of which %d bytes up to %d were read, closed %v",
					c.from, c.to, share, data, st.from, st.end, st.read, st.to, st.closed)
			}
			if upper == nil && st.end != data {
				t.Errorf("a pass up to the end has a stream up to %d of %d", st.end, data)
			}
		}
	}
}

// TestPass_MovedMeanwhile: a table that is removed from this machine during a pass is read by a stream from then on. One that
// stays is read as ever, and so is one that is read backwards.
func TestPass_MovedMeanwhile(t *testing.T) {
	r, src, list := remoteTable(t, 9000, WriterOptions{}, ReaderOptions{})
	src.local = true
	it := r.NewIteratorWith(nil, IterOptions{NoFill: true, Readahead: 16 << 10})
	n := 0
	for kv := it.First(); kv != nil; kv = it.Next() {
		if n++; n == len(list)/2 {
			if len(src.streams) > 0 || src.plain == 0 {
				t.Errorf("a local file is read by %d streams, and %d other reads", len(src.streams), src.plain)
			}
			src.local = false
		}
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil || n != len(list) || len(src.streams) != 1 {
		t.Errorf("%d keys, %v, %d streams", n, err, len(src.streams))
	}
	src.streams = nil
	it.Reset(r, nil, IterOptions{NoFill: true, Readahead: 16 << 10})
	n = 0
	for kv := it.Last(); kv != nil && n < 5000; kv = it.Prev() {
		n++
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil || n != 5000 || len(src.streams) > 1 || len(src.streams) == 1 && src.streams[0].read > 16<<10 {
		t.Errorf("backwards: %d keys, %v, %d streams", n, err, len(src.streams))
	}
}

// An error of a stream is one of the device, and ends the pass.
func TestPass_Fails(t *testing.T) {
	r, src, _ := remoteTable(t, 9000, WriterOptions{}, ReaderOptions{})
	it := r.NewIteratorWith(nil, IterOptions{NoFill: true, Readahead: 16 << 10})
	it.First()
	src.streams[0].err = errDevice
	for kv := it.Next(); kv != nil; kv = it.Next() {
		continue
	}
	var damage *base.CorruptionError
	if err := it.Err(); !errors.Is(err, errDevice) || errors.As(err, &damage) {
		t.Errorf("Err() = %v", err)
	}
	if err := it.Close(); err != nil || !src.streams[0].closed {
		t.Errorf("Close() = %v, the stream is closed: %v", err, src.streams[0].closed)
	}
}

// A filter is built of a table that is elsewhere with one stream.
func TestPass_BuildFilter(t *testing.T) {
	r, src, _ := remoteTable(t, 9000, WriterOptions{}, ReaderOptions{})
	b, err := r.BuildFilter(context.Background(), IterOptions{NoFill: true, Readahead: 16 << 10}, nil, bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{})
	if err != nil || len(b.Bytes) == 0 || len(src.streams) != 1 || !src.streams[0].closed || src.plain > 0 {
		t.Errorf("%d bytes, %v, %d streams, %d other reads", len(b.Bytes), err, len(src.streams), src.plain)
	}
}

// TestAskStored: a filter that is not in memory is asked where it is near, and gives the answers that it gives in memory. Where it is
// not, or can't be read, nothing is known.
func TestAskStored(t *testing.T) {
	hash := func(key string) func(bloom.Hasher) uint64 {
		return func(h bloom.Hasher) uint64 { return h.Hash([]byte(key)) }
	}
	for _, o := range []WriterOptions{
		{FilterBits: 10}, {FilterBits: 20}, {FilterBits: 10, FilterKind: bloom.KindFuse},
	} {
		r, src, list := remoteTable(t, 9000, o, ReaderOptions{})
		f := r.Filter()
		r.DropFilter()
		denied := 0
		for i := range 9000 {
			for _, key := range []string{string(list[i].key.UserKey), fmt.Sprintf("absent%d", i)} {
				maybe, known := r.AskStored(hash(key))
				if !known || maybe != f.MayContainHash(bloom.Hash([]byte(key))) {
					t.Fatalf("%s: %v, known %v", key, maybe, known)
				}
				if !maybe {
					denied++
				}
			}
		}
		if denied < 8800 {
			t.Errorf("%d of 9000 absent keys were denied", denied)
		}
		absent := hash("absent")
		if n := testing.AllocsPerRun(100, func() { r.AskStored(absent) }); n != 0 && !testenv.Race {
			t.Errorf("%v allocations a question", n)
		}
		src.nearErr = errDevice
		if maybe, known := r.AskStored(absent); !maybe || known {
			t.Errorf("a read that fails: %v, known %v", maybe, known)
		}
	}
	for name, c := range map[string]struct {
		w    WriterOptions
		o    ReaderOptions
		near int64
	}{
		"not near":  {WriterOptions{FilterBits: 10}, ReaderOptions{}, -1},
		"no filter": {WriterOptions{}, ReaderOptions{}, 0},
	} {
		r, src, _ := remoteTable(t, 1000, c.w, c.o)
		r.DropFilter()
		if src.near = c.near; c.near < 0 {
			if maybe, known := r.AskStored(hash("absent")); !maybe || known || src.asked != 1 {
				t.Errorf("%s: %v, known %v, asked %d times", name, maybe, known, src.asked)
			}
		} else if maybe, known := r.AskStored(hash("absent")); !maybe || known || src.asked > 0 {
			t.Errorf("%s: %v, known %v, asked %d times", name, maybe, known, src.asked)
		}
	}
	r := newTable(t, WriterOptions{FilterBits: 10}, nil)
	if maybe, known := r.AskStored(hash("absent")); !maybe || known {
		t.Errorf("a file of this machine: %v, known %v", maybe, known)
	}
}

// TestRefetch: blocks of a table on another machine that have changed on their way are fetched again, by lookups, by iterators with
// and without the cache, forwards and backwards, by passes, and by Verify. What does not come right the second time is damage, and so is
// what a local file has.
func TestRefetch(t *testing.T) {
	var ways []func(r *Reader, list []entry) error
	ways = append(ways, func(r *Reader, list []entry) error {
		for _, e := range list {
			var v Value
			if found, err := r.Get(e.key.UserKey, bloom.Hash(e.key.UserKey), base.MaxSeq, &v, nil); err != nil || !found {
				return fmt.Errorf("Get(%s): %v, %w", e.key.UserKey, found, err)
			}
			v.Release()
		}
		return nil
	})
	for _, o := range []IterOptions{{}, {NoFill: true}, {NoFill: true, Readahead: 16 << 10}} {
		for _, back := range []bool{false, true} {
			ways = append(ways, func(r *Reader, list []entry) error {
				it := r.NewIteratorWith(nil, o)
				first, next := it.First, it.Next
				if back {
					first, next, list = it.Last, it.Prev, slices.Clone(list)
					slices.Reverse(list)
				}
				n := 0
				for kv := first(); kv != nil; kv = next() {
					if !bytes.Equal(kv.UserKey, list[n].key.UserKey) {
						return fmt.Errorf("entry %d is %s, want %s", n, kv.UserKey, list[n].key.UserKey)
					}
					n++
				}
				if err := errors.Join(it.Err(), it.Close()); err != nil || n != len(list) {
					return fmt.Errorf("%d of %d entries: %w", n, len(list), cmp.Or(err, errors.New("no error")))
				}
				return nil
			})
		}
	}
	ways = append(ways, func(r *Reader, _ []entry) error { return r.Verify(t.Context()) })
	for i, way := range ways {
		for _, c := range []*Codec{nil, &SnappyCodec} {
			r, src, list := remoteTable(t, 9000, WriterOptions{Codec: c, FilterBits: 10}, ReaderOptions{})
			spoil := func() {
				src.flipped = make(map[int64]bool)
				for at := int64(700); at < src.data; at += 40 << 10 {
					src.flipped[at] = true
				}
			}
			spoil()
			many := len(src.flipped)
			if err := way(r, list); err != nil || src.refetches < many {
				t.Errorf("way %d: %v; %d blocks of %d were fetched again", i, err, src.refetches, many)
			}
			for _, local := range []bool{false, true} {
				r, src, list = remoteTable(t, 9000, WriterOptions{Codec: c, FilterBits: 10}, ReaderOptions{})
				spoil()
				src.sticky, src.local = true, local
				var damage *base.CorruptionError
				if err := way(r, list); !errors.As(err, &damage) || src.refetches > 1 || local && src.refetches > 0 {
					t.Errorf("way %d, damage that stays, local %v: %v; %d blocks were fetched again", i, local, err, src.refetches)
				}
			}
		}
	}
}
