package debug

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/treepicture"
	"github.com/shaledb/shale/vfs"
)

// A treeStore knows which entries are in each run of its store. It has no memtable with entries.
type treeStore struct {
	*testing.T
	db   *shale.DB
	runs [][]string
	live map[string]bool
}

// put writes keys, and one run of them; a key that begins with a minus is deleted.
func (s *treeStore) put(keys ...string) {
	s.Helper()
	run := map[string]bool{}
	for _, key := range keys {
		var err error
		if key[0] == '-' {
			key = key[1:]
			err = s.db.Delete([]byte(key))
			delete(s.live, key)
		} else {
			err = s.db.Put([]byte(key), []byte("value of "+key))
			s.live[key] = true
		}
		if err != nil {
			s.Fatal(err)
		}
		run[key] = true
	}
	if err := s.db.Flush(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.runs = append(s.runs, slices.Sorted(maps.Keys(run)))
}

func (s *treeStore) compact() {
	s.Helper()
	if err := s.db.Compact(s.Context(), shale.Range{}); err != nil {
		s.Fatal(err)
	}
	s.runs = [][]string{slices.Sorted(maps.Keys(s.live))}
}

// rank returns which share of all entries lies before key.
func (s *treeStore) rank(key string) float64 {
	before, all := 0, 0
	for _, run := range s.runs {
		n, _ := slices.BinarySearch(run, key)
		before, all = before+n, all+len(run)
	}
	return float64(before) / float64(all)
}

var (
	barOf  = regexp.MustCompile(`data-table="(\d+)"><title>[^<]*</title><rect x="([0-9.]+)" y="\d+" width="([0-9.]+)"`)
	tickOf = regexp.MustCompile(`<path d="M([0-9.]+) 0v6"[^>]*/>\s*<text[^>]*>([^<]*)</text>`)
)

// TestTree_PlacesAreRanks compares the places of bars, and of the keys below them, with counts of
// entries. Nothing in the picture may be further off than 3 % of the width, or an entry.
func TestTree_PlacesAreRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	many := func(n int, key func(i int) string) (keys []string) {
		for i := range n {
			keys = append(keys, key(i))
		}
		return keys
	}
	user := func(int) string { return fmt.Sprintf("user:%09d", rng.IntN(100_000_000)) }
	// uneven has most keys where their bytes differ little, and with binary keys between.
	uneven := func(int) string {
		if rng.IntN(10) > 0 {
			return fmt.Sprintf("host/%x", rng.IntN(1<<20))
		}
		return string(rune('a'+rng.IntN(26))) + string([]byte{byte(rng.IntN(256)), byte(rng.IntN(256)), byte(rng.IntN(256))})
	}
	imported := func(s *treeStore) {
		for range 12 {
			s.put(many(2000, user)...)
		}
	}
	for name, build := range map[string]func(s *treeStore){
		"an import in no order":        imported,
		"compacted":                    func(s *treeStore) { imported(s); s.compact() },
		"compacted, and imported upon": func(s *treeStore) { imported(s); s.compact(); s.put(many(3000, user)...); s.put(many(300, user)...) },
		"a fill in order": func(s *treeStore) {
			for r := range 6 {
				s.put(many(500*(r+1), func(i int) string { return fmt.Sprintf("%02d-%06d", r, i) })...)
			}
		},
		"uneven keys": func(s *treeStore) {
			for range 5 {
				s.put(many(3000, uneven)...)
			}
			s.compact()
			s.put(many(3000, uneven)...)
		},
		"deletions": func(s *treeStore) {
			keys := many(6000, user)
			s.put(keys...)
			for i := range keys[:2000] {
				keys[i] = "-" + keys[i]
			}
			s.put(keys[:2000]...)
		},
		"all deleted": func(s *treeStore) {
			s.put(many(100, user)...)
			s.compact()
			s.put(many(50, func(i int) string { return fmt.Sprint("-k", i) })...)
		},
		"three entries": func(s *treeStore) { s.put("a", "b"); s.put("c") },
		"one entry":     func(s *treeStore) { s.put("a") },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), CompactionWorkers: -1, Durability: shale.SyncManual, TableSize: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s := &treeStore{T: t, db: db, live: map[string]bool{}}
			build(s)
			entries := 0
			for _, run := range s.runs {
				entries += len(run)
			}
			const width, left, right = 1324, 88, 236 // so that the bars have 1000 pixels
			near := func(what string, x, rank float64) {
				t.Helper()
				if off := math.Abs((x-left)/1000 - rank); off > 0.03 && off > 1/float64(entries)+0.02 {
					t.Errorf("%s at %.3f of the width, want %.3f", what, (x-left)/1000, rank)
				}
			}
			var svg bytes.Buffer
			tables := db.Inspect().Tables()
			whole := func(key []byte) string { return fmt.Sprintf("%x", key) }
			if err := treepicture.Draw(&svg, levelsOf(tables), treepicture.Options{Width: width, Key: whole}); err != nil {
				t.Fatal(err)
			}
			number := func(b []byte) float64 {
				f, err := strconv.ParseFloat(string(b), 64)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			bars := barOf.FindAllSubmatch(svg.Bytes(), -1)
			if len(bars) != len(tables) || len(bars) == 0 {
				t.Fatalf("%d bars of %d tables", len(bars), len(tables))
			}
			for _, bar := range bars {
				i := slices.IndexFunc(tables, func(i shale.TableInfo) bool { return float64(i.Number) == number(bar[1]) })
				what := fmt.Sprintf("table %s of L%d run %d", bar[1], tables[i].Level, tables[i].Run)
				near(what+" begins", number(bar[2]), s.rank(string(tables[i].Smallest)))
				near(what+" ends", number(bar[2])+number(bar[3]), s.rank(string(tables[i].Largest)+"\x00"))
			}
			found := tickOf.FindAllSubmatch(svg.Bytes(), -1)
			for _, tick := range found {
				text := bytes.TrimSuffix(tick[2], []byte("…"))
				i := slices.IndexFunc(tables, func(i shale.TableInfo) bool {
					return bytes.HasPrefix([]byte(whole(i.Smallest)), text) || bytes.HasPrefix([]byte(whole(i.Largest)), text)
				})
				if i < 0 {
					t.Fatalf("there is no bound %s", text)
				}
				key := tables[i].Smallest
				if !bytes.HasPrefix([]byte(whole(key)), text) {
					key = tables[i].Largest
				}
				near(fmt.Sprintf("the key %q", key), number(tick[1]), s.rank(string(key)))
			}
			if len(found) == 0 {
				t.Error("no key is written below the bars")
			}
		})
	}
}

// Where nobody has asked, the worst tables are those that expect the most false positives,
// and the picture has a colour that says something.
func TestFilters_BeforeAnyLookup(t *testing.T) {
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), CompactionWorkers: -1, Durability: shale.SyncManual, TableSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &treeStore{T: t, db: db, live: map[string]bool{}}
	for i := range 14 {
		s.put(fmt.Sprint("a", i), fmt.Sprint("z", i))
		if i == 0 {
			var many []string
			for k := range 20_000 {
				many = append(many, fmt.Sprintf("k%06d", k))
			}
			s.put(many...)
			s.compact() // the last level has fewer bits a key than the small runs above it
		}
	}
	h := &handler{db: db}
	got, err := h.filters(nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for _, table := range db.Inspect().Tables() {
		want = append(want, table.PredictedFPR)
	}
	slices.Sort(want)
	slices.Reverse(want)
	for i, worst := range got.(filterUse).Worst {
		if worst.PredictedFPR != want[i] || worst.Asked > 0 {
			t.Errorf("number %d of the worst is %+v, want a rate of %v", i, worst, want[i])
		}
	}
	w := httptest.NewRecorder()
	if err := h.serveTree(w, httptest.NewRequest("GET", "/tree.svg", nil)); err != nil || !strings.Contains(w.Body.String(), "filter bits a key") {
		t.Errorf("%v, and the legend is another one", err)
	}
	if want[0] == want[len(want)-1] {
		t.Error("all rates are the same: this shows nothing")
	}
}
