package shale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

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
