package shale

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A batch holds its operations in order, may be written twice and is empty after Reset. Write with a
// cancelled context fails.
func TestBatch(t *testing.T) {
	db := openTest(t, small())
	var b Batch
	mustPut(t, &b, "a", "1")
	mustPut(t, &b, "b", "2")
	mustDelete(t, &b, "a")
	if b.Len() != 3 {
		t.Errorf("Len = %d, want 3", b.Len())
	}
	for range 2 { // a batch may be written again
		if err := db.Write(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
	}
	wantGet(t, db, "a", "", false)
	wantGet(t, db, "b", "2", true)
	var ops []string
	for op := range b.Ops() {
		ops = append(ops, fmt.Sprintf("%v %s %s", op.Kind, op.Key, op.Value))
	}
	if got, want := strings.Join(ops, "; "), "put a 1; put b 2; delete a "; got != want {
		t.Errorf("Ops = %q, want %q", got, want)
	}
	b.Reset()
	if b.Len() != 0 || db.Write(context.Background(), &b) != nil {
		t.Errorf("an empty batch: Len %d", b.Len())
	}
	if err := b.Put(make([]byte, MaxKeySize+1), nil); !errors.Is(err, ErrKeyTooLarge) {
		t.Errorf("Put of a huge key: %v, want ErrKeyTooLarge", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Write(ctx, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("Write with a cancelled context: %v", err)
	}
}

// exampleBytes returns the bytes of an example of docs/FORMAT.md.
func exampleBytes(t testing.TB, name string) []byte {
	t.Helper()
	doc, err := os.ReadFile("docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(doc), "```example "+name+"\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatalf("docs/FORMAT.md has no example %s", name)
	}
	var b []byte
	for line := range strings.Lines(text) {
		columns, _, _ := strings.Cut(line, "   ")
		part, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(columns), " ", ""))
		if err != nil {
			t.Fatalf("example %s, line %q: %v", name, line, err)
		}
		b = append(b, part...)
	}
	return b
}

// A batch is encoded as the example in docs/FORMAT.md shows.
func TestBatch_ExampleOfTheFormat(t *testing.T) {
	want := exampleBytes(t, "batch")
	var b Batch
	mustPut(t, &b, "user", "ann")
	mustDelete(t, &b, "tmp")
	if got := b.setSeq(7); !bytes.Equal(got, want) {
		t.Errorf("the batch of the example is % x, the document says % x", got, want)
	}
	seq, decoded, err := decodeBatch(want)
	if err != nil || seq != 7 || decoded.Len() != 2 {
		t.Errorf("decodeBatch = %d, %+v, %v", seq, decoded, err)
	}
}

// Decoding a damaged batch returns an error that says what is wrong.
func TestDecodeBatch_Damage(t *testing.T) {
	good := exampleBytes(t, "batch")
	change := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "no whole header"},
		{"cut in the header", good[:1], "no whole header"},
		{"number cut", []byte{0x87}, "no whole header"},
		{"cut in an operation", good[:len(good)-1], "operation 1: key: length runs past the end"},
		{"cut between operations", good[:len(good)-5], "says 2 operations and holds 1"},
		{"number 0", change(0, 0), "begins at sequence number 0"},
		{"number too large", append(binary.AppendUvarint(nil, 1<<56), good[1:]...), "begins at sequence number"},
		{"number beyond 64 bits", append(bytes.Repeat([]byte{0xff}, 10), good...), "no whole header"},
		{"count", change(1, 3), "says 3 operations and holds 2"},
		{"count beyond the numbers", append(binary.AppendUvarint(nil, 1<<56-2), good[1:]...), "2 operations begins"},
		{"count beyond 32 bits", append(binary.AppendUvarint([]byte{7}, 1<<32+2), good[2:]...), "begins at sequence number"},
		{"kind", change(2, 3), "operation 0: written by a newer version of shale (operation of kind 3)"},
		{"flag", []byte{7, 1, 2, 1, 'k', 2}, "operation 0: range delete without a flag for its upper bound"},
		{"no flag", []byte{7, 1, 2, 1, 'k'}, "operation 0: range delete without a flag for its upper bound"},
		{"length", change(3, 0xff), "operation 0: key"},
	} {
		if _, _, err := decodeBatch(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
	}
}

// batchLimit is small because a decoded batch refers to the bytes that it was decoded from.
var batchLimit = fuzzing.Limit{Bytes: 1 << 10}

// FuzzDecodeBatch checks that the operations of each batch that is accepted can be read, and
// that they encode to a batch of the same size or smaller.
func FuzzDecodeBatch(f *testing.F) {
	good := exampleBytes(f, "batch")
	f.Add(good)
	f.Add(good[:3])
	f.Add([]byte{1, 0})
	f.Add(exampleBytes(f, "mark"))
	var b Batch
	err := errors.Join(b.DeleteRange([]byte("a"), []byte("b")), b.DeleteRange(nil, nil), b.DeleteRange([]byte{0xff}, []byte{0xff, 0}),
		b.putUntil([]byte("k"), []byte("v"), 1<<40), b.putUntil(nil, nil, 0), b.Delete([]byte("k")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b.setSeq(7))
	f.Fuzz(func(t *testing.T, data []byte) {
		var seq base.Seq
		var b *Batch
		var err error
		batchLimit.Check(t, len(data), func() {
			if seq, b, err = decodeBatch(data); err == nil {
				for range b.Ops() {
					continue
				}
			}
		})
		if err != nil || b.Len() == 0 {
			return
		}
		// The header of data may be longer than it has to be.
		if bytes := b.AppendTo(nil); len(bytes) > len(data) || string(bytes[len(bytes)-len(b.data[b.ops:]):]) != string(b.data[b.ops:]) {
			t.Fatalf("%x is appended as %x", data, bytes)
		}
		if _, _, mark := b.Ingested(); mark {
			return
		}
		var again Batch
		for op := range b.Ops() {
			if op.Kind == OpDeleteRange && op.Value != nil && bytes.Compare(op.Key, op.Value) >= 0 {
				return // a batch does not take a range without keys
			}
			if err = again.Add(op); err != nil {
				t.Fatal(err)
			}
		}
		if again.Len() != b.Len() {
			t.Fatalf("%d of %d operations walked", again.Len(), b.Len())
		}
		encoded := again.setSeq(seq)
		if _, _, err := decodeBatch(encoded); err != nil || len(encoded) > len(data) || len(encoded) == len(data) && !bytes.Equal(encoded, data) {
			t.Fatalf("%x encodes to %x, %v", data, encoded, err)
		}
	})
}

// The first operation of a batch makes one allocation, for its key and value together.
func TestBatch_OneAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	key, value := make([]byte, 16), make([]byte, 100)
	n := testing.AllocsPerRun(100, func() {
		var b Batch
		if err := b.Put(key, value); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// A batch with an unknown durability is refused and writes nothing: otherwise it would be
// acknowledged and lost in a power cut. The store goes on to take other writes.
func TestBatch_UnknownDurability(t *testing.T) {
	for _, d := range []Durability{77, -1, SyncManual + 1} {
		mem := vfs.NewMem()
		db := openTest(t, &Options{FS: mem, MemtableSize: 64 << 10})
		var b Batch
		b.SetDurability(d)
		for range 2 {
			if err := b.Put([]byte("unknown"), nil); err != nil {
				t.Fatal(err)
			}
			if err := db.Write(t.Context(), &b); err == nil || !strings.Contains(err.Error(), fmt.Sprint(int(d))) || db.Err() != nil {
				t.Errorf("Write with durability %d: %v, want an error that names it", d, err)
			}
		}
		if has, err := db.Has([]byte("unknown")); has || err != nil {
			t.Errorf("Has = %v, %v after a batch that was refused", has, err)
		}
		b.SetDurability(SyncEach)
		if err := db.Write(t.Context(), &b); err != nil {
			t.Errorf("Write after SetDurability(SyncEach): %v", err)
		}
		b.SetDurability(d)
		b.Reset()
		if err := errors.Join(b.Put([]byte("plain"), nil), db.Write(t.Context(), &b)); err != nil {
			t.Errorf("Write after Reset: %v", err)
		}
		crashed := openTest(t, &Options{FS: mem.Crash(vfs.CrashConfig{}), MemtableSize: 64 << 10})
		for _, k := range []string{"unknown", "plain"} {
			if has, err := crashed.Has([]byte(k)); !has || err != nil {
				t.Errorf("%s after a power cut: %v, %v", k, has, err)
			}
		}
	}
}

// A batch with a durability of its own is as durable as in a store that was opened with
// that durability, whatever the store's own is: at once, after SyncEvery, or after Sync.
func TestBatch_OwnDurability(t *testing.T) {
	for _, store := range []Durability{SyncEach, SyncPeriodic, SyncManual} {
		for _, own := range []Durability{SyncEach, SyncPeriodic, SyncManual} {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				db := openTest(t, &Options{FS: mem, MemtableSize: 64 << 10, Durability: store, SyncEvery: time.Second})
				var b Batch
				b.SetDurability(own)
				for round := range 3 {
					key := fmt.Appendf(nil, "k%d", round)
					b.Reset()
					b.SetDurability(own)
					if err := errors.Join(b.Put(key, key), db.Write(t.Context(), &b)); err != nil {
						t.Fatal(err)
					}
					if own == SyncPeriodic {
						time.Sleep(time.Second)
						synctest.Wait()
					}
					crashed := openTest(t, &Options{FS: mem.Crash(vfs.CrashConfig{}), MemtableSize: 64 << 10})
					has, err := crashed.Has(key)
					if err != nil || !has && own != SyncManual {
						t.Errorf("round %d, store of %d, batch of %d: after a power cut Has = %v, %v", round, store, own, has, err)
					}
				}
			})
		}
	}
}

// Batch.Add takes an operation as it is.
func TestBatch_Add(t *testing.T) {
	var a, b Batch
	if err := errors.Join(a.Put([]byte("k"), []byte("v")), a.Delete([]byte("l"))); err != nil {
		t.Fatal(err)
	}
	for op := range a.Ops() {
		if err := b.Add(op); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := b.AppendTo(nil), a.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if err := b.Add(Op{Kind: 77}); err == nil || b.Len() != 2 {
		t.Errorf("an unknown kind: %v, %d operations", err, b.Len())
	}
}
