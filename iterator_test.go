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
