package repair

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// A rangeStore is a store with range deletes that a test writes and damages.
type rangeStore struct {
	t    *testing.T
	disk *vfs.Mem
	db   *shale.DB
	hold uint64   // ShippingOptions.HoldLogs
	seq  int      // number of the last commit
	hits []func() // the damage that follows the life
}

func (s *rangeStore) open() {
	s.t.Helper()
	opts := &shale.Options{FS: s.disk, CompactionWorkers: -1, Durability: shale.SyncManual}
	opts.Shipping.HoldLogs = s.hold
	db, err := shale.Open("db", opts)
	must(s.t, err)
	s.db = db
}

// live does what the words say, and closes the store. Each key is put with the number of its commit as
// value. merge flushes, and merges all tables: then no range delete is left, and all entries have number 0.
func (s *rangeStore) live(words string) {
	s.t.Helper()
	ctx := context.Background()
	s.open()
	for _, word := range strings.Fields(words) {
		s.seq++ // but for the words that are not commits
		what, keys, _ := strings.Cut(word, ":")
		lower, upper, isRange := strings.Cut(word, "..")
		value := fmt.Append(nil, s.seq)
		var err error
		switch {
		case isRange:
			err = s.db.DeleteRange([]byte(lower), []byte(upper))
		case what == "expires": // it does so in an hour
			err = s.db.PutTTL([]byte(keys), value, time.Hour)
		case what == "expired":
			err = s.db.PutTTL([]byte(keys), value, 0)
		case what == "ingest":
			err = s.db.Ingest(ctx, func(yield func(k, v []byte) bool) {
				for _, key := range strings.Split(keys, ",") {
					if !yield([]byte(key), value) {
						return
					}
				}
			})
		case what == "hit": // the record of the commit is damaged
			err = s.db.Put([]byte(keys), []byte("damaged"))
			s.hit(s.newestLog(), "damaged")
		default:
			if s.seq--; !s.upkeep(ctx, word) {
				s.seq++
				err = s.db.Put([]byte(word), value)
			}
		}
		if err != nil {
			s.t.Fatalf("%s: %v", word, err)
		}
	}
	must(s.t, s.db.Close())
	for _, hit := range s.hits {
		hit()
	}
}

// upkeep does what no commit is. It reports false if word is not such a thing.
func (s *rangeStore) upkeep(ctx context.Context, word string) bool {
	s.t.Helper()
	switch word {
	case "flush":
		must(s.t, s.db.Flush(ctx))
	case "merge":
		must(s.t, s.db.Compact(ctx, shale.Range{}))
	case "reopen":
		must(s.t, s.db.Close())
		s.open()
	case "HIT": // the next edit of the manifest is damaged
		name, n := manifestOf(s.t, s.disk)
		s.hits = append(s.hits, func() { overwrite(s.t, s.disk, name, n) })
	case "TOP": // the header of the newest log is damaged
		log := s.newestLog()
		s.hits = append(s.hits, func() { overwrite(s.t, s.disk, "db/"+log, 20) })
	case "LOSE": // the manifest is lost
		s.hits = append(s.hits, func() {
			name, _ := manifestOf(s.t, s.disk)
			remove(s.t, s.disk, name, "db/CURRENT")
		})
	default:
		return false
	}
	return true
}

// hit damages the file where it has the text.
func (s *rangeStore) hit(file, text string) {
	s.hits = append(s.hits, func() {
		at := strings.Index(filesIn(s.t, s.disk)[file], text)
		if at < 0 {
			s.t.Fatalf("%s has no %q", file, text)
		}
		overwrite(s.t, s.disk, "db/"+file, int64(at))
	})
}

func (s *rangeStore) newestLog() string {
	s.t.Helper()
	names, err := s.disk.List("db")
	must(s.t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".wal") })
	return slices.MaxFunc(names, func(a, b string) int {
		_, m, _ := base.ParseFileName(a)
		_, n, _ := base.ParseFileName(b)
		return int(m) - int(n)
	})
}

// repaired repairs the store and returns its keys and values.
func (s *rangeStore) repaired(into string, doubtful bool) (got string, r *Report) {
	s.t.Helper()
	r, err := Run(context.Background(), "db", into, &Options{FS: s.disk, Doubtful: doubtful})
	must(s.t, err)
	db, err := shale.Open(into, &shale.Options{FS: s.disk, ReadOnly: true})
	must(s.t, err)
	var list []string
	for e, err := range db.Scan(shale.Range{}) {
		must(s.t, err)
		list = append(list, fmt.Sprintf("%s%s", e.Key, e.Value))
	}
	must(s.t, db.Close())
	return strings.Join(list, " "), r
}

// Range deletes are in the manifest or in logs. What they cover does not come back, and nothing else goes
// with it.
func TestRun_Ranges(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hold  uint64
		life  string
		want  string // keys and values
		guess string // with Options.Doubtful
		asOf  uint64
	}{
		{name: "a log has nothing else",
			life: "a b c merge b..c", want: "a1 c3", asOf: 4},
		{name: "the manifest has it, and tables what it covers",
			life: "a b c flush b..c flush", want: "a1 c3", asOf: 4},
		{name: "what it covers got number 0 before",
			life: "a b c merge b..c flush", want: "a1 c3", asOf: 4},
		{name: "nothing is left of it",
			life: "a b c b..c merge", want: "a1 c3", asOf: 4},
		{name: "nothing is left at all",
			life: "a b a..c flush", want: "", asOf: 3},
		{name: "later writes are not covered",
			life: "a b c flush b..c b flush a..b a", want: "a7 b5 c3", asOf: 7},
		{name: "values that expire",
			life: "expires:a expires:b expired:c merge b..d expires:c", want: "a1 c5", asOf: 5},

		{name: "nothing is left at all, and the log does not say so",
			life: "a b a..c flush TOP", want: "", asOf: 3},

		// Logs that are kept have range deletes that are finished.
		{name: "what came later got number 0", hold: 1,
			life: "a b a..c b merge c", want: "b4 c5", asOf: 5},
		{name: "what was ingested later got number 0", hold: 1,
			life: "A b z a..d merge ingest:b,b1 merge c", want: "A1 b5 b15 c6 z3", asOf: 6},
		{name: "and there are no tables for it", hold: 1,
			life: "A b z a..d merge ingest:b,b1 merge c LOSE", want: "A1 c6 z3", guess: "A1 b5 b15 c6 z3", asOf: 6},

		// In front of a gap it counts, behind one it is doubtful, together with what follows.
		{name: "in front of a gap",
			life: "a b merge b..c hit:x a", want: "a1", guess: "a5", asOf: 3},
		{name: "behind a gap",
			life: "a b c d merge c hit:x b..d d", want: "a1 b2 c5 d4", guess: "a1 d8", asOf: 5},
		{name: "behind a gap, and perhaps older than the tables",
			life: "a b c d merge c hit:x b..d d reopen", want: "a1 b2 c3 d4", guess: "a1 d8", asOf: 4},

		// Without a manifest the last commits count, and tables are doubtful.
		{name: "without a manifest",
			life: "a b c merge b..c d LOSE", want: "d5", guess: "a1 c3 d5", asOf: 5},
		{name: "the manifest had it",
			life: "a b c merge b..c flush d LOSE", want: "d5", guess: "a1 b2 c3 d5", asOf: 5},
		{name: "without a manifest, and what came later is lost in logs", hold: 1,
			life: "a b merge a..c hit:b merge c LOSE", want: "c5", guess: "bdamaged c5", asOf: 5},

		// Tables that no manifest names may be of a later state, in which the range delete was finished.
		{name: "the manifest ends with it",
			life: "a b c flush b..c flush HIT b merge", want: "", guess: "a1 b5 c3", asOf: 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &rangeStore{t: t, disk: vfs.NewMem(), hold: tt.hold}
			s.live(tt.life)
			got, r := s.repaired("strict", false)
			if got != tt.want || r.AsOf != tt.asOf {
				t.Errorf("saved %q as of %d, want %q as of %d; the report: %+v", got, r.AsOf, tt.want, tt.asOf, r)
			}
			if r.Whole() != (len(s.hits) == 0 || strings.HasSuffix(tt.life, "TOP")) {
				t.Errorf("Whole = %v: %+v", r.Whole(), r)
			}
			if tt.guess == "" {
				tt.guess = tt.want
			}
			if got, r := s.repaired("all", true); got != tt.guess {
				t.Errorf("with the doubtful ones %q, want %q; the report: %+v", got, tt.guess, r)
			}
		})
	}
}

// Number 0 is that of all entries which the last level has had for a while.
func TestMerge_CoversNumber0(t *testing.T) {
	known, unknown := &manifest.State{LastSeq: 8}, (*manifest.State)(nil)
	run, stray := origin{age: 1}, origin{age: strayAge, doubts: new(Left)}
	for _, tt := range []struct {
		name            string
		state           *manifest.State
		origin          origin
		proven, doubted base.Seq
		want            bool
	}{
		{"a run's, older than what the manifest or a proven commit deletes", known, run, 1, 0, true},
		{"a run's, older than a doubtful delete that is newer than all tables", known, run, 0, 9, true},
		{"a run's, and a doubtful delete that tables may have gone on after", known, run, 0, 8, false},
		{"a stray's, and the manifest is old", known, stray, 1, 9, false},
		{"a stray's, and the logs have all that came after the delete", unknown, stray, 1, 0, true},
		{"a stray's, and logs may be missing after the delete", unknown, stray, 0, 9, false},
	} {
		m := &merge{s: &survey{state: tt.state}, key: []byte("k"), trailer: base.NewKey(nil, 0, base.KindPut).Trailer, origin: tt.origin}
		for f, seq := range map[*spans.Finder]base.Seq{&m.proven: tt.proven, &m.doubted: tt.doubted} {
			if seq > 0 {
				f.Add((*spans.Set)(nil).With([]byte("k"), nil, seq))
			}
		}
		if got := m.covered(); got != tt.want {
			t.Errorf("%s: covered = %v", tt.name, got)
		}
	}
}
