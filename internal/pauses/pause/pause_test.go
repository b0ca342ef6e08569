package pause

import (
	"reflect"
	"testing"
	"time"
)

func TestPlan_Encoded(t *testing.T) {
	for _, p := range []Plan{
		{Sites: 1},
		{Sites: 9, Slow: []int{0, 8}, Seed: 1<<64 - 1, For: time.Second, Seen: "a folder/of \"sites\""},
	} {
		if got, err := decode(p.Encode()); !reflect.DeepEqual(got, p) || err != nil {
			t.Errorf("%q is decoded as %+v, %v; want %+v", p.Encode(), got, err, p)
		}
	}
	for _, text := range []string{"x", "3 0 0 ,3 \"\"", "3 0 0 ,a \"\"", "3 0 0 ,-1 \"\""} {
		if p, err := decode(text); err == nil {
			t.Errorf("%q is decoded as %+v, want an error", text, p)
		}
	}
}

// Without a plan nothing pauses, and values go through.
func TestAfter_WithoutAPlan(t *testing.T) {
	if got := After("v", 1<<20); got != "v" {
		t.Errorf("After(v) = %q", got)
	}
	called := 0
	later := Later(func() { called++ }, 5)
	if later(); called != 1 {
		t.Errorf("the function was called %d times", called)
	}
}
