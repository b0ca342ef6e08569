package compaction

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// overlapping returns a version with n tables of size bytes in the last level. The first
// half of them is overwritten by a tenth as many tables of the same size in the level above.
// In level 0 is one table over all keys.
func overlapping(n int, size int64) *manifest.Version {
	num := base.FileNum(0)
	table := func(from, to int) *manifest.Table {
		num++
		key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
		return &manifest.Table{Num: num, Size: size, Smallest: key(from), Largest: key(to), Entries: 1, Keys: 1}
	}
	var last, upper []*manifest.Table
	for i := range n {
		last = append(last, table(10*i, 10*i+9))
		if i%10 == 0 && i < n/2 {
			upper = append(upper, table(10*i, 10*i+99))
		}
	}
	e := &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: 9, Table: table(0, 10*n-1)}}}
	for _, t := range last {
		e.Added = append(e.Added, manifest.Added{Level: 6, Table: t})
	}
	for _, t := range upper {
		e.Added = append(e.Added, manifest.Added{Level: 5, Table: t})
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		panic(err)
	}
	return v
}

// LiveBytes looks at no more tables of a store with 100 times as many, and is as right.
func TestLiveBytes_AnyNumberOfTables(t *testing.T) {
	const size = 1000
	var looked [2]int
	for i, n := range []int{1000, 100_000} {
		v := overlapping(n, size)
		shares, l := liveShares(v, nil)
		live := LiveBytes(v)
		looked[i] = l
		// If all but level 0 is known, that alone is estimated.
		if again, l := liveShares(v, shares[1:]); !slices.Equal(again, shares) || l > 1+2*len(v.Levels[0].Runs[0].Tables) {
			t.Errorf("%d tables: the shares are %v, and by a look at %d tables %v", n, shares, l, again)
		}
		// All of level 5 and of level 0 is overwriting something, up to its own size.
		if want := float64(n * size); math.Abs(float64(live)-want) > want/100 {
			t.Errorf("%d tables: %d bytes are live, want %v", n, live, want)
		}
	}
	if looked[0] == 0 || looked[1] > looked[0]*5+10 || looked[1] > 3*liveSamples {
		t.Errorf("it looks at %d tables of 1,000, and at %d of 100,000", looked[0], looked[1])
	}
}

// Of a long run, the share that was overwritten counts, wherever it is.
func TestLiveBytes_PartOfALongRun(t *testing.T) {
	const n = 20 * liveSamples
	v := overlapping(n, 1000)
	e := &manifest.Edit{Removed: []manifest.Removed{{Level: 0, Num: v.Levels[0].Runs[0].Tables[0].Num}}}
	// Without the second quarter of the last level, half of the upper level is alone.
	for _, table := range v.Levels[6].Runs[0].Tables[n/4 : n/2] {
		e.Removed = append(e.Removed, manifest.Removed{Level: 6, Num: table.Num})
	}
	v, err := v.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	want := float64(1000 * (n - n/4 + n/40)) // the last level, and half of the level above
	if live := LiveBytes(v); math.Abs(float64(live)-want) > want/100 {
		t.Errorf("%d bytes are live, want about %v", live, want)
	}
}
