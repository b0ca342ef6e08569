package redisbloom

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is for the bits, twice while they grow, and for the links.
var limit = fuzzing.Limit{Bytes: 4 << 10, PerByte: 6}

// FuzzLoad loads a header and bits in chunks of any size.
func FuzzLoad(f *testing.F) {
	for _, golden := range goldens(f) {
		_, header := golden.ScanDump(0)
		var bits []byte
		for _, l := range golden.links {
			bits = append(bits, l.bf...)
		}
		f.Add(header, bits, uint16(1000), "key-0")
		f.Add(header, bits, uint16(3), "key-0")
	}
	f.Fuzz(func(t *testing.T, header, bits []byte, size uint16, key string) {
		var made *Filter
		var err error
		limit.Check(t, len(header)+len(bits), func() { made, err = load(header, bits, 1+int(size)) })
		probeBinary(t, append(bytes.Clone(header), bits...), err == nil)
		if err != nil {
			if made != nil || errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) {
				t.Fatalf("load = %v, %v", made, err)
			}
			return
		}
		made.MayContainString(key)
		made.Info()
		if p := made.FPR(); !(p >= 0 && p <= 1) {
			t.Fatalf("FPR() = %v", p)
		}
		_, h := made.ScanDump(0)
		var again []byte
		for it, chunk := range made.Chunks() {
			if it != headerIter {
				again = append(again, chunk...)
			}
		}
		if !bytes.Equal(h, header) || !bytes.Equal(again, bits) {
			t.Fatal("written again it is another")
		}
		last := made.links[len(made.links)-1]
		if last.items >= last.entries && float64(last.entries)*float64(made.growth) > 1<<20 {
			return // a link that is too large to be made here
		}
		if err := made.AddString(key); err == nil && !made.MayContainString(key) {
			t.Fatal("an added key is denied")
		}
	})
}

// probeBinary reads the serialized form, which is good if the chunks are.
func probeBinary(t *testing.T, b []byte, good bool) {
	var f Filter
	var err error
	limit.Check(t, len(b), func() { err = f.UnmarshalBinary(b) })
	if good && err != nil {
		t.Fatalf("the chunks load, and UnmarshalBinary gives %v", err)
	}
	if err != nil {
		return
	}
	if again, err := f.AppendBinary(nil); err != nil || !bytes.Equal(again, b) {
		t.Fatalf("written again it is another: %v", err)
	}
}

// load gives the bits to a loader in chunks of at most size, none of which spans
// two links.
func load(header, bits []byte, size int) (*Filter, error) {
	var l Loader
	if err := l.LoadChunk(1, header); err != nil {
		return nil, err
	}
	it := int64(1)
	for len(bits) > 0 && l.link < len(l.f.links) {
		to := &l.f.links[l.link]
		n := min(size, len(bits), int(min(to.bytes-uint64(len(to.bf)), 1<<30)))
		it += int64(n)
		if err := l.LoadChunk(it, bits[:n]); err != nil {
			return nil, err
		}
		bits = bits[n:]
	}
	if len(bits) > 0 {
		return nil, l.LoadChunk(it+int64(len(bits)), bits)
	}
	return l.Filter()
}

// A header that promises more than the chunks have costs no memory.
func TestLoader_AllocatesWhatItLoads(t *testing.T) {
	f := mustNew(t, Options{})
	l := &f.links[0]
	l.bytes, l.bits = maxLinkBytes, 8*maxLinkBytes
	header, chunk := f.header(), make([]byte, 1000)
	limit.Check(t, len(header)+20*len(chunk), func() {
		var l Loader
		err := l.LoadChunk(1, header)
		for i := range int64(20) {
			if err == nil {
				err = l.LoadChunk(1+1000*(i+1), chunk)
			}
		}
		if err != nil && math.MaxInt > math.MaxInt32 {
			t.Error(err)
		}
		if made, err := l.Filter(); made != nil || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("Filter = %v", err)
		}
	})
}
