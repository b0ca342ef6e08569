package shale

import (
	"fmt"
	"testing"
)

// What a table holds of a key in later versions only is no false positive of its
// filter.
func TestMetrics_LaterVersionIsNoFalsePositive(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "other", "v")
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 100 {
		mustPut(t, db, fmt.Sprint("key", i), "v")
	}
	mustFlush(t, db)
	for i := range 100 {
		wantGet(t, s, fmt.Sprint("key", i), "", false)
	}
	if m := db.Metrics(); m.FilterFalsePositive != 0 || m.FalsePositivesRemembered != 0 || m.FilterTruePositive < 100 {
		t.Errorf("%d false positives, %d remembered, %d true ones; want none, none and 100", m.FilterFalsePositive, m.FalsePositivesRemembered, m.FilterTruePositive)
	}
}
