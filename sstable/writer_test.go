package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

func TestWriter_RefusesMisuse(t *testing.T) {
	key := func(s string) base.InternalKey {
		k, err := base.ParseKey(s)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	cases := []struct {
		name  string
		key   base.InternalKey
		value []byte
	}{
		{"smaller key", key("a#9,PUT"), nil},
		{"same entry", key("b#5,PUT"), nil},
		{"older before newer", key("b#6,PUT"), nil},
		{"long key", base.NewKey(bytes.Repeat([]byte("x"), maxKeySize+1), 1, base.KindPut), nil},
		{"long value", key("c#1,PUT"), make([]byte, maxValueSize+1)},
		{"unknown kind", base.NewKey([]byte("c"), 1, 3), nil},
	}
	for _, c := range cases {
		w := NewWriter(discard{}, WriterOptions{FilterBits: 10})
		if err := w.Add(key("b#5,PUT"), nil); err != nil {
			t.Fatal(err)
		}
		err := w.Add(c.key, c.value)
		if err == nil {
			t.Errorf("%s: Add succeeds", c.name)
		}
		if again := w.Add(key("z#1,PUT"), nil); again != err {
			t.Errorf("%s: next Add = %v, want the first error", c.name, again)
		}
		if _, ferr := w.Finish(); ferr != err {
			t.Errorf("%s: Finish = %v, want the first error", c.name, ferr)
		}
	}
	w := NewWriter(discard{}, WriterOptions{})
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err == nil {
		t.Error("a second Finish succeeds")
	}
	if err := w.Add(key("b#5,PUT"), nil); err == nil {
		t.Error("Add after Finish succeeds")
	}
}

// TestWriter_WriteErrorIsFinal fails each write and the sync.
func TestWriter_WriteErrorIsFinal(t *testing.T) {
	list := shapes()["huge value"]
	for n := int64(0); ; n++ {
		fs := faultfs.New(vfs.NewMem(), func(op vfs.Op, _ string, k int64) error {
			if op != vfs.OpCreate && k >= n+1 {
				return errDevice
			}
			return nil
		})
		f, err := fs.Create("000007.sst")
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(f, WriterOptions{Num: testNum})
		for _, e := range list {
			if err = w.Add(e.key, e.value); err != nil {
				break
			}
		}
		_, ferr := w.Finish()
		if ferr == nil {
			if n == 0 {
				t.Fatal("nothing failed")
			}
			return
		}
		if !errors.Is(ferr, errDevice) || err != nil && !errors.Is(err, errDevice) {
			t.Fatalf("operation %d: Add = %v, Finish = %v, want %v", n, err, ferr, errDevice)
		}
		if n > 100 {
			t.Fatal("never succeeds")
		}
	}
}

// TestWriter_SharedBuilder writes tables one after the other with one builder. They have the
// same bytes as with a builder each.
func TestWriter_SharedBuilder(t *testing.T) {
	var builder bloom.StaticBuilder
	for i, n := range []int{2000, 300, 2500} {
		var list []entry
		for k := range n {
			list = append(list, parseEntries(t, fmt.Sprintf("key-%d-%06d#%d,PUT=v", i, k, k+1))...)
		}
		o := WriterOptions{FilterBits: 16, FilterKind: bloom.KindFuse}
		want, _ := writeFile(t, o, list)
		o.Builder = &builder
		if got, info := writeFile(t, o, list); !bytes.Equal(got, want) || info.FilterBytes == 0 {
			t.Errorf("table %d of %d keys: the bytes depend on the builder", i, n)
		}
	}
}

// TestWriter_EstimatedSize checks that the estimate is close to the final size.
func TestWriter_EstimatedSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := NewWriter(discard{}, WriterOptions{FilterBits: 10})
	for i := range 20_000 {
		if err := w.Add(base.NewKey(fmt.Appendf(nil, "user%06d", i), base.Seq(i), base.KindPut), benchValue(rng)); err != nil {
			t.Fatal(err)
		}
	}
	estimate := w.EstimatedSize()
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if estimate < info.Size*95/100 || estimate > info.Size*105/100 {
		t.Errorf("EstimatedSize() = %d, size became %d", estimate, info.Size)
	}
}

// TestWriter_HashesBesideTheHeap checks that the hashes of many keys are off the heap until
// the table is finished or abandoned.
func TestWriter_HashesBesideTheHeap(t *testing.T) {
	for _, end := range []struct {
		name string
		end  func(w *Writer)
	}{
		{"Finish", func(w *Writer) {
			if _, err := w.Finish(); err != nil {
				t.Error(err)
			}
		}},
		{"Abandon", func(w *Writer) {
			w.Abandon()
			if err := w.Add(base.NewKey([]byte("z"), 1, base.KindPut), nil); !errors.Is(err, errFinished) {
				t.Errorf("Add after Abandon: %v", err)
			}
		}},
	} {
		before := quietMemory(t)
		w := NewWriter(discard{}, WriterOptions{FilterBits: 10})
		for i := range 100_000 {
			if err := w.Add(base.NewKey(fmt.Appendf(nil, "user%06d", i), base.Seq(i), base.KindPut), nil); err != nil {
				t.Fatal(err)
			}
			if taken := offheap.InUse() - before; i == nearHashes-1 && taken != 0 || i == 99_999 && taken != 8*131072 {
				t.Errorf("%d bytes beside the heap for %d keys", taken, i+1)
			}
		}
		end.end(w)
		if left := offheap.InUse() - before; left != 0 {
			t.Errorf("%d bytes are left after %s", left, end.name)
		}
	}
}

// quietMemory waits until nothing of earlier tests is freed any more, keeps the garbage collector from freeing more
// during the test, and returns how much is in use outside the heap.
func quietMemory(t *testing.T) int64 {
	old := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	runtime.GC()
	for now, same := offheap.InUse(), 0; ; time.Sleep(time.Millisecond) {
		if was := now; was != offheap.InUse() {
			now, same = offheap.InUse(), 0
		} else if same++; same == 20 {
			return now
		}
	}
}

// TestFilter_HashesChangedInMemory checks that no filter is written if its hashes are not
// those that were collected, or if it lacks one.
func TestFilter_HashesChangedInMemory(t *testing.T) {
	c := newHashCollector(bloom.Hasher{}, base.PrefixRule{})
	for i := range 1000 {
		c.add(uint64(i) * 0x9e3779b97f4a7c15)
	}
	if _, err := buildFilter(nil, c.list.all, c.sum, bloom.StaticOptions{BitsPerKey: 10}); err != nil {
		t.Fatal(err)
	}
	for bit := range 64 {
		c.list.all[500] ^= 1 << bit
		if _, err := buildFilter(nil, c.list.all, c.sum, bloom.StaticOptions{BitsPerKey: 10}); !errors.Is(err, errHashSum) {
			t.Errorf("bit %d: %v, want %v", bit, err, errHashSum)
		}
		c.list.all[500] ^= 1 << bit
	}
}

// TestReader_FilterUnits drops and loads the second unit of a filter while the table is in
// use.
func TestReader_FilterUnits(t *testing.T) {
	list := shapes()["many"]
	b, info := writeFile(t, WriterOptions{FilterBits: 20}, list)
	open := func(o ReaderOptions) *Reader {
		o.Num, o.StoreID, o.Size, o.Checksum = testNum, testStore, info.Size, info.Checksum
		r, err := Open(bytes.NewReader(b), o)
		if err != nil || r.FilterErr() != nil {
			t.Fatal(err, r.FilterErr())
		}
		return r
	}
	hasAll := func(r *Reader, units int) {
		t.Helper()
		f := r.Filter()
		if f == nil || f.Units() != units {
			t.Fatalf("Filter() = %v, want %d units", f, units)
		}
		for _, e := range list {
			if !f.MayContainHash(hashOf(e)) {
				t.Fatalf("%d units: %v is missing", units, e.key)
			}
		}
	}
	r := open(ReaderOptions{})
	hasAll(r, 2)
	_, before := r.MemoryBytes()
	if !r.DropSecondUnit() || r.DropSecondUnit() {
		t.Fatal("DropSecondUnit drops not once")
	}
	hasAll(r, 1)
	if _, after := r.MemoryBytes(); after >= before {
		t.Errorf("filter takes %d bytes, before %d", after, before)
	}
	if _, err := r.LoadFilter(false); err != nil {
		t.Fatal(err)
	}
	hasAll(r, 2)
	r = open(ReaderOptions{NoFilter: true})
	if r.Filter() != nil || r.FilterErr() != nil {
		t.Fatal("NoFilter: a filter or an error")
	}
	if _, err := r.LoadFilter(false); err != nil {
		t.Fatal(err)
	}
	hasAll(r, 2)
}

func TestVerify_StopsWithContext(t *testing.T) {
	r := newTable(t, WriterOptions{}, shapes()["many"])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify = %v", err)
	}
}

// Verify reads each data block once. What Open reads at the end of the file may be read twice.
func TestVerify_ReadsBlocksOnce(t *testing.T) {
	list := shapes()["many"]
	for i := range list {
		list[i].value = make([]byte, 100)
	}
	b, info := writeFile(t, WriterOptions{FilterBits: 10}, list)
	src := &countedSource{bytes.NewReader(b), make([]byte, len(b))}
	r, err := Open(src, ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum})
	if err != nil {
		t.Fatal(err)
	}
	clear(src.times)
	if err := r.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	if info.Size < 2*tailRead {
		t.Fatalf("the table has only %d bytes", info.Size)
	}
	for at, n := range src.times {
		if n == 0 || n > 1 && int64(at) < info.Size-tailRead {
			t.Fatalf("byte %d of %d was read %d times", at, info.Size, n)
		}
	}
}

// A countedSource counts how many times each byte is read.
type countedSource struct {
	*bytes.Reader
	times []byte
}

func (c *countedSource) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	for i := range n {
		c.times[off+int64(i)]++
	}
	return n, err
}

// The buffers of a writer grow once for large values, and are given up when values are small again.
func TestWriter_LargeValues(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	w := NewWriter(discard{}, WriterOptions{Codec: &SnappyCodec})
	value := make([]byte, 2<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range value[:len(value)/2] {
		value[i] = byte(r.Uint32())
	}
	seq := base.Seq(0)
	add := func(n, size int) (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			seq++
			if err := w.Add(base.NewKey(fmt.Appendf(nil, "key%08d", seq), seq, base.KindPut), value[int(seq)%1000*1000%(len(value)-size+1):][:size]); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	add(4, len(value))
	if n := add(20, len(value)); n > uint64(len(value)) {
		t.Errorf("%d bytes are allocated for 20 values of %d", n, len(value))
	}
	add(10000, 100)
	for name, n := range map[string]int{"values": cap(w.data.values), "out": cap(w.data.out), "buf": cap(w.buf)} {
		if n > keepBuffer {
			t.Errorf("%s has room for %d bytes after small values", name, n)
		}
	}
	w.Abandon()
}
