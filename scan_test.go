package shale

import (
	"fmt"
	"strings"
	"testing"
)

func TestRange(t *testing.T) {
	db := openTest(t, small())
	for _, k := range []string{"a", "b", "b\xff", "b\xff\xff", "c", "\xff", "\xff\xff"} {
		mustPut(t, db, k, "")
	}
	for _, c := range []struct {
		r    Range
		want string
	}{
		{Range{}, `"a" "b" "b\xff" "b\xff\xff" "c" "\xff" "\xff\xff"`},
		{Range{Lower: []byte("b")}, `"b" "b\xff" "b\xff\xff" "c" "\xff" "\xff\xff"`},
		{Range{Upper: []byte("b")}, `"a"`},
		{Range{Upper: []byte{}}, ``},
		{Range{Lower: []byte("c"), Upper: []byte("b")}, ``},
		{Prefix("b"), `"b" "b\xff" "b\xff\xff"`},
		{Prefix("b\xff"), `"b\xff" "b\xff\xff"`},
		{Prefix("\xff"), `"\xff" "\xff\xff"`},
		{Prefix(""), `"a" "b" "b\xff" "b\xff\xff" "c" "\xff" "\xff\xff"`},
		{Prefix("b").Reversed(), `"b\xff\xff" "b\xff" "b"`},
		{Range{Limit: 2}, `"a" "b"`},
		{Range{Limit: 2, Reverse: true}, `"\xff\xff" "\xff"`},
	} {
		var got []string
		for e, err := range db.Scan(c.r) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%+q", e.Key))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("Scan(%+v) = %s, want %s", c.r, s, c.want)
		}
	}
}

// A loop may be left early, panic, and run again; its range is its own.
func TestScan_Loop(t *testing.T) {
	db := layered(t)
	lower := []byte("b")
	scan := db.Scan(Range{Lower: lower, Limit: 3})
	lower[0] = 'z'
	for range 2 {
		var got strings.Builder
		for e := range scan {
			got.Write(e.Key)
		}
		if got.String() != "bce" {
			t.Errorf("Scan: %s, want bce", &got)
		}
		mustPut(t, db, "f", "not within the first three")
	}
	for range scan {
		break
	}
	func() {
		defer func() { _ = recover() }()
		for range scan {
			panic("in the loop")
		}
	}()
	if n := db.Metrics().OpenIterators; n != 0 {
		t.Errorf("%d iterators are open after loops that were left", n)
	}
	var kept []Entry
	for e := range db.Scan(Range{Limit: 4}) {
		kept = append(kept, e.Clone())
	}
	for i, e := range kept {
		if string(e.Key) != layerKeys[i] || string(e.Value) != layerKeys[i] {
			t.Errorf("clone %d is %s = %s", i, e.Key, e.Value)
		}
	}
}
