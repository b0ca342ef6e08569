package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// Holds answers for the runs of a version, numbered from 0 for the newest: may the run hold the
// key? If it may not, rate is the probability that this question gets a yes for an absent key.
// So a caller with a filter gives its answer and its rate of false positives.
type Holds func(run int, key []byte) (maybe bool, rate float64)

// A Sample returns keys from n places that are spread over a table, or none.
type Sample func(run, table, n int) [][]byte

// LiveShares estimates, for each run of v and newest run first, which share of its bytes a
// merge of all tables would leave. The estimate charges each entry to the run that makes it
// obsolete: a run pays for its tombstones, for the older versions that it has of its own keys,
// and for the entries of older runs that it overwrites or deletes. The share of a run may be
// negative, because a tombstone is shorter than the entry that it deletes.
//
// Whether a run overwrites older entries is known from some of its keys, for which it asks
// holds: those at the ends of its tables and, of a run with few tables, those that sample knows. So
// an estimate is as good as these keys stand for the others. If sample knows none, it is right
// for runs whose keys are all new, or all written again, and a run in which both kinds are mixed is
// charged too much or too little, by its own size at most.
//
// Of a run of more than liveSamples tables, and of more older runs than liveRuns, it looks at as
// many. So it takes the same time for a run of any length.
func LiveShares(v *manifest.Version, holds Holds, sample Sample) []float64 {
	shares, _ := liveShares(v, holds, sample)
	return shares
}

// SumLive returns how many bytes are live, by the result of LiveShares.
func SumLive(v *manifest.Version, shares []float64) int64 {
	sum, all := 0.0, 0.0
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			bytes := float64(v.Levels[level].Runs[i].Totals().Bytes)
			sum, all = sum+bytes*shares[0], all+bytes
			shares = shares[1:]
		}
	}
	return int64(math.Round(min(max(sum, 0), all)))
}

// The largest numbers of tables of a run, and of runs behind it, that LiveShares looks at.
const (
	liveSamples = 64
	liveRuns    = 128
	livePlaces  = 32 // places that are sampled in a run, if it has no more tables than that
)

// liveShares is LiveShares. asked is how often it has called holds.
func liveShares(v *manifest.Version, holds Holds, sample Sample) (shares []float64, asked int) {
	l := liveness{sample: sample}
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			l.runs = append(l.runs, &v.Levels[level].Runs[i])
		}
	}
	l.holds = func(run int, key []byte) (bool, float64) { asked++; return holds(run, key) }
	for i := range l.runs {
		shares = append(shares, l.share(i))
	}
	return shares, asked
}

// A liveness is an estimate of LiveShares under way.
type liveness struct {
	runs   []*manifest.Run // newest first
	holds  Holds
	sample Sample
}

// share estimates which share of run i is live.
func (l *liveness) share(i int) float64 {
	sum := l.runs[i].Totals()
	keys := float64(sum.Keys)
	if sum.Keys == 0 { // not stated
		keys = float64(sum.Entries)
	}
	put, tombstone := entrySizes(l.runs[i])
	dead := float64(sum.Tombstones)*tombstone + (float64(sum.Entries)-keys)*put
	// So that there are liveRuns at most, and the last run is among them.
	step := (len(l.runs)-i-2)/liveRuns + 1
	older := make([]int, 0, min(liveRuns, len(l.runs)-i))
	for j := len(l.runs) - 1; j > i; j -= step {
		older = append(older, j)
	}
	for n, hit := range l.hits(i, older) {
		put, _ := entrySizes(l.runs[older[n]])
		dead += min(hit*keys, float64(l.runs[older[n]].Totals().Entries)) * put
	}
	return 1 - dead/float64(max(sum.Bytes, 1))
}

// hits estimates for each of older, the oldest first, the probability that a key of run i has
// its newest older version there.
func (l *liveness) hits(i int, older []int) []float64 {
	hits := make([]float64, len(older))
	tables, all := l.runs[i].Tables, 0.0
	n := min(len(tables), liveSamples)
	for k := range n {
		t := tables[k*len(tables)/n]
		keys := [][]byte{t.Smallest, t.Largest}
		if n <= livePlaces {
			keys = append(keys, l.sample(i, k, livePlaces/n)...)
		}
		for _, key := range keys {
			weight := float64(max(t.Keys, 1)) / float64(len(keys))
			all += weight
			// unseen is the probability that no run so far has the key. A no counts for a little more
			// than one, which outweighs the yes that the filter gives for some absent keys.
			for j, unseen := len(older)-1, weight; j >= 0 && unseen != 0; j-- {
				maybe, rate := l.holds(older[j], key)
				rest := 0.0
				if !maybe {
					rest = unseen / max(1-rate, 0.01)
				}
				hits[j], unseen = hits[j]+unseen-rest, rest
			}
		}
	}
	for j := range hits {
		hits[j] /= max(all, 1)
	}
	return hits
}

// entrySizes returns about how many bytes of a run's tables an entry takes, if tombstones take
// none, and a tombstone. It knows the lengths of keys from one table.
func entrySizes(r *manifest.Run) (put, tombstone float64) {
	sum := r.Totals()
	t := r.Tables[len(r.Tables)/2]
	if raw := t.RawKeyBytes + t.RawValueBytes; sum.Tombstones > 0 && raw > 0 {
		tombstone = float64(t.RawKeyBytes) / float64(t.Entries) * float64(t.Size) / float64(raw)
		tombstone = min(tombstone, float64(sum.Bytes)/float64(sum.Entries))
	}
	return (float64(sum.Bytes) - float64(sum.Tombstones)*tombstone) / float64(max(sum.Entries, 1)), tombstone
}
