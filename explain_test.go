package shale

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 5000, 0)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "key000003", "new")
	x, err := db.Explain([]byte("key000003"))
	if err != nil || !x.Found || string(x.Value) != "new" || x.Steps[0].Verdict != Found || x.Steps[len(x.Steps)-1].Verdict != Skipped {
		t.Errorf("Explain = %v, %v", x, err)
	}
	x, err = db.Explain([]byte("key000004"))
	if err != nil || !x.Found || x.Steps[len(x.Steps)-1].Verdict != Found || len(x.Steps[len(x.Steps)-1].Blocks) == 0 {
		t.Errorf("Explain = %v, %v", x, err)
	}
	no := 0
	for i := range 1000 {
		x, err = db.Explain(fmt.Appendf(nil, "key%06dx", i))
		if err != nil || x.Found {
			t.Fatalf("Explain = %v, %v", x, err)
		}
		if last := x.Steps[len(x.Steps)-1]; last.Verdict == FilterNegative {
			no++
		}
	}
	if no < 900 {
		t.Errorf("filters said no to %d of 1000 absent keys", no)
	}
	if s := x.String(); !strings.Contains(s, "not found: 1 filter asked") {
		t.Errorf("String() = %s", s)
	}
}
