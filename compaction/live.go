package compaction

import (
	"bytes"
	"math"

	"github.com/shaledb/shale/manifest"
)

// LiveBytes estimates how many bytes would remain
// if all tables of v were merged into one run.
//
// A table is assumed to overwrite all data that older runs hold in its key range, up
// to its own size. Of an older table that overlaps the range only in part, half of the
// bytes count. What is overwritten is not live. So runs that share no keys count as a
// whole, and data that was written twice counts once. Tombstones count like puts.
//
// Of a run of more than liveSamples tables, it looks at as many, and assumes that the
// others are overwritten to the same share. So it takes the same time for a run of any
// length, but for the search for the tables below one.
func LiveBytes(v *manifest.Version) int64 { return SumLive(v, LiveShares(v, nil)) }

// LiveShares returns which share of the bytes of each run LiveBytes counts, newest run first.
// known are the last ones, as far as the caller knows them: what is live in a run
// depends only on the run and on those behind it.
func LiveShares(v *manifest.Version, known []float64) []float64 {
	shares, _ := liveShares(v, known)
	return shares
}

// SumLive returns what LiveBytes does, by the result of LiveShares.
func SumLive(v *manifest.Version, shares []float64) (sum int64) {
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			sum += int64(math.Round(float64(v.Levels[level].Runs[i].Totals().Bytes) * shares[0]))
			shares = shares[1:]
		}
	}
	return sum
}

// liveSamples is how many tables of a run LiveBytes looks at, at most.
const liveSamples = 64

// liveShares is LiveShares. looked is at how many tables it has looked, searches not counted.
func liveShares(v *manifest.Version, known []float64) (shares []float64, looked int) {
	var runs []*manifest.Run // newest first
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			runs = append(runs, &v.Levels[level].Runs[i])
		}
	}
	for i, run := range runs[:len(runs)-len(known)] {
		share, n := liveShare(run, runs[i+1:])
		shares, looked = append(shares, share), looked+n
	}
	return append(shares, known...), looked
}

// liveShare estimates which share of a run is live. older are the runs behind it.
func liveShare(run *manifest.Run, older []*manifest.Run) (share float64, looked int) {
	if len(older) == 0 {
		return 1, 0
	}
	n := len(run.Tables)
	var bytes, over int64 // of the samples, and how much of that is overwritten
	for j := range min(n, liveSamples) {
		if n > liveSamples {
			j = int(int64(j) * int64(n) / liveSamples)
		}
		t := run.Tables[j]
		under, more := bytesUnder(older, t)
		bytes, over, looked = bytes+t.Size, over+under, looked+1+more
	}
	return float64(bytes-over) / float64(max(bytes, 1)), looked
}

// bytesUnder estimates how many bytes older runs hold in t's key range,
// up to the size of t. looked is at how many of their tables it has looked.
func bytesUnder(older []*manifest.Run, t *manifest.Table) (under int64, looked int) {
	for _, run := range older {
		more, n := bytesWithin(run.Overlaps(t.Smallest, t.Largest), t, t.Size-under)
		under, looked = under+more, looked+n
		if under >= t.Size {
			break
		}
	}
	return min(under, t.Size), looked
}

// bytesWithin estimates how many bytes of tables lie in t's key range. It stops when these
// are enough. looked is at how many tables it has looked. Requires: they are tables of one
// run that all overlap t, so only the first and the last can reach beyond its range.
func bytesWithin(tables []*manifest.Table, t *manifest.Table, enough int64) (sum int64, looked int) {
	for i, o := range tables {
		size := o.Size
		beyond := i == 0 && bytes.Compare(o.Smallest, t.Smallest) < 0 ||
			i == len(tables)-1 && bytes.Compare(o.Largest, t.Largest) > 0
		if beyond {
			size -= size / 2
		}
		if sum, looked = sum+size, i+1; sum >= enough {
			break
		}
	}
	return sum, looked
}
