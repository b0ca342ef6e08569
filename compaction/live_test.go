package compaction

import (
	"bytes"
	"encoding/binary"
	"math"
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

// between returns a Holds for v whose runs hold all keys between the ends of their tables.
func between(v *manifest.Version) Holds {
	var runs []*manifest.Run
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			runs = append(runs, &v.Levels[level].Runs[i])
		}
	}
	return func(run int, key []byte) (bool, float64) {
		r := runs[run]
		i := r.Find(key)
		return i < len(r.Tables) && bytes.Compare(r.Tables[i].Smallest, key) <= 0, 0
	}
}

// none is a Sample that knows no keys.
func none(int, int, int) [][]byte { return nil }

// LiveShares asks for no more keys in a store with 100 times as many tables, and is as right.
func TestLiveShares_AnyNumberOfTables(t *testing.T) {
	const size = 1000
	for _, n := range []int{1000, 100_000} {
		v := overlapping(n, size)
		shares, asked := liveShares(v, between(v), none)
		if asked == 0 || asked > 4*liveSamples+4 {
			t.Errorf("%d tables: it asks %d times", n, asked)
		}
		// All of level 5 and of level 0 overwrites something.
		if live := SumLive(v, shares); math.Abs(float64(live)-float64(n*size)) > float64(n*size)/100 {
			t.Errorf("%d tables: %d bytes are live, want %v", n, live, n*size)
		}
	}
}

// Thousands of runs are not all compared with all others.
func TestLiveShares_AnyNumberOfRuns(t *testing.T) {
	const n = 3000
	e := &manifest.Edit{}
	for i := range n {
		key := func(end int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(10*i+end)) }
		e.Added = append(e.Added, manifest.Added{Run: uint64(i + 1),
			Table: &manifest.Table{Num: base.FileNum(i + 1), Size: 100, Smallest: key(0), Largest: key(9), Entries: 10, Keys: 10}})
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	shares, asked := liveShares(v, between(v), none)
	if live := SumLive(v, shares); live != 100*n || asked > 2*liveRuns*n {
		t.Errorf("%d bytes of %d are live, by %d questions", live, 100*n, asked)
	}
}

// Of a long run, the share that was overwritten counts, wherever it is.
func TestLiveShares_PartOfALongRun(t *testing.T) {
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
	if live := SumLive(v, LiveShares(v, between(v), none)); math.Abs(float64(live)-want) > want/100 {
		t.Errorf("%d bytes are live, want about %v", live, want)
	}
}
