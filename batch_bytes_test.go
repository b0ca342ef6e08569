package shale

import (
	"bytes"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// What AppendTo appends is what the log stores.
func TestBatch_AppendTo(t *testing.T) {
	var b Batch
	if got := b.AppendTo([]byte("x")); string(got) != "x\x01\x00" {
		t.Errorf("an empty batch: %q", got)
	}
	_ = b.Put([]byte("user"), []byte("ann"))
	_ = b.Delete([]byte("tmp"))
	for _, seq := range []base.Seq{1, 7, 300, base.MaxSeq - 2} {
		if seq > 1 {
			b.setSeq(seq)
		}
		got := b.AppendTo([]byte("x"))
		if want := append([]byte("x"), b.setSeq(seq)...); !bytes.Equal(got, want) {
			t.Errorf("%x, the log stores %x", got, want)
		}
		first, decoded, err := DecodeBatch(got[1:])
		if err != nil || first != uint64(seq) || decoded.Len() != 2 {
			t.Errorf("decoded: %d, %v, %v", first, decoded, err)
		}
		if again := decoded.AppendTo(nil); !bytes.Equal(again, got[1:]) {
			t.Errorf("%x of a decoded batch, want %x", again, got[1:])
		}
	}
}

func TestBatch_BytesOfAnExpiringValue(t *testing.T) {
	var b Batch
	if err := b.Add(Op{Kind: OpPut, Key: []byte("user"), Value: []byte("ann"), ExpiresAt: time.UnixMilli(1_700_000_000_000)}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.AppendTo(nil), exampleBytes(t, "expiring"); !bytes.Equal(got, want) {
		t.Errorf("% x, the document says % x", got, want)
	}
}

// A mark stands alone in its batch. Its keys are no longer than other keys.
func TestDecodeBatch_Mark(t *testing.T) {
	var b Batch
	if err := b.add(kindIngestMark, []byte("a"), []byte("tmp")); err != nil {
		t.Fatal(err)
	}
	mark := bytes.Clone(b.setSeq(9))
	if want := exampleBytes(t, "mark"); !bytes.Equal(mark, want) {
		t.Errorf("the mark of the example is % x, the document says % x", mark, want)
	}
	if _, d, err := DecodeBatch(mark); err != nil || d.Len() != 1 {
		t.Fatalf("%v, %v", d, err)
	}
	_ = b.Put([]byte("k"), nil)
	if _, _, err := DecodeBatch(b.setSeq(9)); err == nil {
		t.Error("a mark beside a change is decoded")
	}
	b.Reset()
	_ = b.add(kindIngestMark, []byte("a"), make([]byte, MaxKeySize+1))
	if _, _, err := DecodeBatch(b.setSeq(9)); err == nil {
		t.Error("a mark with a key that is too long is decoded")
	}
}
