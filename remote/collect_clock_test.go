package remote

import (
	"testing"
	"time"
)

// TestChooseFloor_ClockAhead has one state of a time when the clock was years ahead. The later ones, of right times, must
// still be found, or nothing would be collected for years.
func TestChooseFloor_ClockAhead(t *testing.T) {
	b := NewMem()
	c := beginChain(t, b)
	now := time.Now()
	for _, at := range []time.Duration{-5 * time.Hour, 5 * 8760 * time.Hour, -3 * time.Hour, -time.Hour} {
		s := addTable(10)
		s.Edit, s.LastTableSeq, s.Written = nil, 0, now.Add(at)
		publish(t, c, b, s)
		mustNil(t, c.putState(t.Context(), b))
	}
	for hours, want := range map[time.Duration]uint64{6: 0, 4: 2, 2: 4, 0: 5} {
		if got, err := c.chooseFloor(t.Context(), b, now.Add(-hours*time.Hour)); err != nil || got != want {
			t.Errorf("since %d hours ago: step %d, %v; want %d", hours, got, err, want)
		}
	}
}
