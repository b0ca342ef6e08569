package remote

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// TestPins makes, lists and removes pins of a store, by name and by label.
func TestPins(t *testing.T) {
	b := NewMem()
	if _, err := Pins(t.Context(), b); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins of an empty bucket: %v", err)
	}
	if err := RemovePin(t.Context(), b, "daily"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pin of an empty bucket: %v", err)
	}
	s, err := Open(t.Context(), "db", b, &Options{Store: shale.Options{FS: vfs.NewMem()}})
	mustNil(t, err)
	mustNil(t, s.DB().Put([]byte("k"), []byte("v")))
	mustNil(t, s.Publish(t.Context()))
	defer func() { mustNil(t, s.Close()) }()
	first, err := CreatePin(t.Context(), b, "daily", PinOptions{Owner: "ann", Lasts: time.Hour})
	mustNil(t, err)
	second, err := CreatePin(t.Context(), b, "before-upgrade", PinOptions{Step: first.N})
	mustNil(t, err)
	list, err := Pins(t.Context(), b)
	if err != nil || len(list) != 2 || list[0].Label != second.Label || list[1].Label != first.Label || list[1].Owner != "ann" || list[1].Expires.IsZero() || !list[0].Expires.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
	mustNil(t, RemovePin(t.Context(), b, "daily"))
	mustNil(t, RemovePin(t.Context(), b, second.Label))
	for _, name := range []string{"daily", second.Label} {
		if err := RemovePin(t.Context(), b, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := Pins(t.Context(), b); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
