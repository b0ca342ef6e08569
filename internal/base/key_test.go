package base

import "testing"

func TestParseKey(t *testing.T) {
	for _, s := range []string{"b#7,DEL", "#0,PUT", "a#b#72057594037927935,MAX"} {
		k, err := ParseKey(s)
		if err != nil || k.String() != s {
			t.Errorf("ParseKey(%q) = %v, %v", s, k, err)
		}
	}
	for _, s := range []string{"b", "b#7", "b#,PUT", "b#-1,PUT", "b#72057594037927936,PUT", "b#7,MERGE"} {
		if k, err := ParseKey(s); err == nil {
			t.Errorf("ParseKey(%q) = %v, want an error", s, k)
		}
	}
}
