package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// No item is shown twice. The filters withhold what they predict, and take less than half the
// memory of ids.
func TestRun(t *testing.T) {
	testenv.SkipRace(t)
	for _, users := range []int{1, 100} {
		var out strings.Builder
		if err := run(t.TempDir(), 20*users, users, &out); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", out.String())
		var shown, twice, size, ids, sets int
		var withheld, predicted float64
		if _, err := fmt.Sscanf(out.String(), "%d items were shown, %d of them twice.\n"+
			"Of the items that users have not seen, %f %% are withheld, predicted %f %%.\n"+
			"A user's filter has %d bytes, a list of ids of 8 bytes would have %d, and a set of names takes %d.",
			&shown, &twice, &withheld, &predicted, &size, &ids, &sets); err != nil {
			t.Fatal(err)
		}
		if shown != 200*users || twice != 0 || 2*size > ids || users > 1 && 10*size > sets {
			t.Errorf("%d users: %d items shown, %d twice; %d bytes, %d of ids, %d of sets", users, shown, twice, size, ids, sets)
		}
		// The rate is a count of some 9,800 items for each user. Users have seen many of the same
		// items, so their filters make the same mistakes: the spread is larger than that of
		// independent events.
		spread := 8 * 100 * math.Sqrt(0.01/9800/math.Sqrt(float64(users)))
		if predicted > 1 || math.Abs(withheld-predicted) > spread {
			t.Errorf("%d users: %.2f %% are withheld, predicted %.2f %% ± %.2f", users, withheld, predicted, spread)
		}
	}
}

// What was shown in an earlier life of the store is not shown again, and when all was shown,
// fewer items come than were asked for. Another user is shown them all the same.
func TestRecommend(t *testing.T) {
	fs, shown := vfs.NewMem(), make(map[string]bool)
	for life := range 3 {
		db, err := shale.Open("db", &shale.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		s := &service{db: db, items: 60, seed: maphash.MakeSeed()}
		for _, n := range []int{9, 1000} {
			items, err := s.recommend("anna", n)
			if err != nil || n == 9 && life == 0 && len(items) != 9 {
				t.Errorf("%d items, %v", len(items), err)
			}
			for _, item := range items {
				if shown[item] {
					t.Errorf("%s is shown twice", item)
				}
				shown[item] = true
			}
		}
		if items, err := s.recommend(fmt.Sprint("bert", life), 9); err != nil || len(items) != 9 {
			t.Errorf("another user: %d items, %v", len(items), err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(shown) < 50 {
		t.Errorf("%d of 60 items were shown", len(shown))
	}
}

// A filter that is damaged is not replaced by an empty one.
func TestRecommend_Damaged(t *testing.T) {
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &service{db: db, items: 10, seed: maphash.MakeSeed()}
	if _, err := s.recommend("anna", 1); err != nil {
		t.Fatal(err)
	}
	value, err := db.Get([]byte("anna"))
	if err != nil {
		t.Fatal(err)
	}
	value[0] ^= 1
	if err := db.Put([]byte("anna"), value); err != nil {
		t.Fatal(err)
	}
	if _, err := s.recommend("anna", 1); !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), "anna") {
		t.Errorf("with a damaged filter: %v", err)
	}
}

// Requests of one user at the same time do not lose each other's items.
func TestSimulate_OneUser(t *testing.T) {
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &service{db: db, items: 1000, seed: maphash.MakeSeed()}
	var out strings.Builder
	if err := simulate(s, 40, 1, &out); err != nil || !strings.HasPrefix(out.String(), "400 items were shown, 0 of them twice.") {
		t.Errorf("%s, %v", out.String(), err)
	}
}
