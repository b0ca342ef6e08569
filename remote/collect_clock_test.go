package remote

import (
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/collect"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
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
		mustNil(t, c.PutState(t.Context(), b))
	}
	for hours, want := range map[time.Duration]uint64{6: 0, 4: 2, 2: 4, 0: 4} {
		if got, _, err := collect.ChooseFloor(t.Context(), b, c, hours*time.Hour, since(now)); err != nil || got != want {
			t.Errorf("since %d hours ago: step %d, %v; want %d", hours, got, err, want)
		}
	}
}

// TestChooseFloor_ClockWrong has a state for each hour. The clock is wrong at one collection, by a day and more in both
// directions, or was wrong when the states were written. One collection takes two hours of the history away at most, and with
// a right clock those that follow keep up with the states.
func TestChooseFloor_ClockWrong(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		name    string
		written func(hour int) time.Duration // how far the clock was ahead
		now     time.Duration                // how far it is ahead at the collection, an hour behind the last state
		most    uint64                       // the highest floor
	}{
		{"right", func(int) time.Duration { return 0 }, 0, 2},
		{"ahead at the collection", func(int) time.Duration { return 0 }, 25 * time.Hour, 2},
		{"years ahead", func(int) time.Duration { return 0 }, 365 * day, 2},
		{"behind at the collection", func(int) time.Duration { return 0 }, -25 * time.Hour, 0},
		{"behind at first", func(hour int) time.Duration { return map[bool]time.Duration{true: -25 * time.Hour}[hour <= 20] }, 0, 3},
		{"ahead at first", func(hour int) time.Duration { return map[bool]time.Duration{true: 25 * time.Hour}[hour <= 20] }, 0, 0},
	} {
		b := NewMem()
		c := beginChain(t, b)
		for hour := 1; hour <= 24; hour++ {
			s := &object.Step{Written: remotetest.ExampleTime.Add(time.Duration(hour)*time.Hour + test.written(hour))}
			publish(t, c, b, s)
			mustNil(t, c.PutState(t.Context(), b))
		}
		right := remotetest.ExampleTime.Add(25 * time.Hour)
		got, _, err := collect.ChooseFloor(t.Context(), b, c, day, since(right.Add(test.now)))
		if mustNil(t, err); got > max(test.most, 1)+2 {
			t.Errorf("%s: the floor is raised to step %d of %d", test.name, got, c.N())
		}
	}
	// From hour to hour the floor follows.
	b := NewMem()
	c := beginChain(t, b)
	for hour := 1; hour <= 60; hour++ {
		at := remotetest.ExampleTime.Add(time.Duration(hour) * time.Hour)
		publish(t, c, b, &object.Step{Written: at})
		mustNil(t, c.PutState(t.Context(), b))
		floor, _, err := collect.ChooseFloor(t.Context(), b, c, day, since(at))
		mustNil(t, err)
		publish(t, c, b, &object.Step{Written: at, Floor: floor})
		if hour > 25 {
			old, err := chain.ReadStep(t.Context(), b, c.StoreID, floor)
			mustNil(t, err)
			if age := at.Sub(old.Written); age < day || age > day+2*time.Hour {
				t.Errorf("hour %d: the floor is %v old", hour, age)
			}
		}
	}
}

// TestStore_AgeByMonotonicClock sets the clock while the process runs: a step of this process is as old as it is.
func TestStore_AgeByMonotonicClock(t *testing.T) {
	s := &Store{}
	s.publish.collector.states = []writtenState{{7, time.Now().Add(-time.Hour)}}
	for n, want := range map[uint64]time.Duration{7: time.Hour, 8: 30 * time.Hour} {
		if got := s.age(&object.Step{N: n, Written: time.Now().Add(-30 * time.Hour)}).Round(time.Minute); got != want {
			t.Errorf("step %d is %v old, want %v", n, got, want)
		}
	}
}
