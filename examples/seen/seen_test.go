package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
)

// realItems are the most asked domains; without them the test is skipped.
func realItems(t testing.TB) string {
	t.Helper()
	return testenv.Shared(t, "data/top-domains-10k.txt")
}

// madeItems writes a list of n items.
func madeItems(t testing.TB, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "item-%d\n", i)
	}
	name := filepath.Join(t.TempDir(), "items.txt")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func defaults(t testing.TB, items string) config {
	return config{db: filepath.Join(t.TempDir(), "db"), items: items, n: 10, capacity: 100, fpr: 0.01, seed: testenv.Seed(t)}
}

// No item is shown twice. The filters withhold what they predict, and take less
// than half the memory of ids.
func TestSimulate(t *testing.T) {
	testenv.SkipRace(t)
	for _, tt := range []struct {
		name            string
		items           func(testing.TB) string
		requests, users int
		fpr             float64
	}{
		{"real", realItems, 6000, 300, 0.05},
		{"made", func(t testing.TB) string { return madeItems(t, 10_000) }, 6000, 300, 0.05},
		{"one user", func(t testing.TB) string { return madeItems(t, 10_000) }, 200, 1, 0.01},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := defaults(t, tt.items(t))
			c.simulate, c.users, c.fpr = tt.requests, tt.users, tt.fpr
			var out bytes.Buffer
			if err := run(t.Context(), c, nil, &out); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", out.String())
			var requests, shown, twice, fresh, withheld, users, size, saves int
			var rate, predicted, each, now float64
			if _, err := fmt.Sscanf(out.String(), "%d requests: %d items were shown, %d of them twice.\n"+
				"Of %d items new to a user %d were withheld: %f %%, predicted %f %%.", &requests, &shown, &twice, &fresh, &withheld, &rate, &predicted); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			_, err := fmt.Sscanf(lines[2], "%d users were shown %f items each; %f", &users, &each, &now)
			_, err2 := fmt.Sscanf(lines[3], "A user's filter has %d bytes and saves %d %% of", &size, &saves)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if requests != tt.requests || shown != 10*requests || twice != 0 || fresh != shown+withheld || users != tt.users {
				t.Errorf("%d requests, %d items shown, %d twice; %d were new, %d withheld; %d users", requests, shown, twice, fresh, withheld, users)
			}
			// Users have seen many of the same items, so their filters make the same
			// mistakes: the spread is larger than that of independent events.
			mean := predicted / 100 * float64(fresh)
			if math.Abs(float64(withheld)-mean) > 8*math.Sqrt(mean)+2 {
				t.Errorf("%d are withheld, predicted %.0f", withheld, mean)
			}
			// The rate now is a count too: of the 8,000 items that one user has not seen, 80 at most
			// are expected to be withheld, give or take 9.
			spread := 5 * math.Sqrt(tt.fpr/(8000*float64(users)))
			if now > 100*(tt.fpr+spread) || saves < 50 {
				t.Errorf("the rate is %v %% at the end; %d %% are saved", now, saves)
			}
		})
	}
}

// What was shown in an earlier run is not shown again, and when all was shown,
// fewer items come than were asked for.
func TestServe(t *testing.T) {
	c := defaults(t, madeItems(t, 60))
	shown := make(map[string]bool)
	for range 3 {
		var out bytes.Buffer
		if err := run(t.Context(), c, strings.NewReader("anna 9\n\nanna 1000\nbert nine\nbert 0\nbert 1 2\n"), &out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		for _, line := range lines[:2] {
			for _, item := range strings.Fields(line)[1:] {
				if shown[item] {
					t.Errorf("%s is shown twice", item)
				}
				shown[item] = true
			}
		}
		for _, line := range lines[2:5] {
			if !strings.Contains(line, "is not a user and a number") {
				t.Errorf("%s", line)
			}
		}
		if !strings.HasPrefix(lines[5], "1 users were shown") {
			t.Errorf("%s", lines[5])
		}
	}
	if len(shown) < 50 {
		t.Errorf("%d of 60 items were shown", len(shown))
	}
}

// A filter that is damaged is not replaced by an empty one.
func TestRecommend_Damaged(t *testing.T) {
	c := defaults(t, madeItems(t, 10))
	if err := run(t.Context(), c, strings.NewReader("anna\n"), io.Discard); err != nil {
		t.Fatal(err)
	}
	db, err := shale.Open(c.db, nil)
	if err != nil {
		t.Fatal(err)
	}
	value, err := db.Get(userKey("anna"))
	if err != nil {
		t.Fatal(err)
	}
	value[0] ^= 1
	if err := errors.Join(db.Put(userKey("anna"), value), db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), c, strings.NewReader("anna\n"), io.Discard); !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), "anna") {
		t.Errorf("with a damaged filter: %v", err)
	}
}

// An interrupt ends the wait for requests, and a simulation.
func TestRun_Interrupt(t *testing.T) {
	c := defaults(t, madeItems(t, 10))
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	defer time.AfterFunc(time.Minute, func() {
		t.Error("it waits for the next line")
		w.Close()
	}).Stop()
	go func() {
		_, _ = io.WriteString(w, "anna 1\n") // read at once
		cancel()
	}()
	var out bytes.Buffer
	if err := run(ctx, c, r, &out); err != nil || !strings.Contains(out.String(), "saved") && !strings.Contains(out.String(), "saves") {
		t.Errorf("%v\n%s", err, out.String())
	}
	c.simulate, c.users, c.db = 1<<30, 10, filepath.Join(t.TempDir(), "db")
	if err := run(ctx, c, nil, &out); err != nil || !strings.Contains(out.String(), "\n0 requests: 0 items") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestSimulate_NeedsNewStore(t *testing.T) {
	c := defaults(t, madeItems(t, 10))
	if err := run(t.Context(), c, strings.NewReader("anna\n"), io.Discard); err != nil {
		t.Fatal(err)
	}
	c.simulate, c.users = 1, 1
	if err := run(t.Context(), c, nil, io.Discard); err == nil {
		t.Error("no error")
	}
	c.items = filepath.Join(t.TempDir(), "none")
	if err := run(t.Context(), c, nil, io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without items: %v", err)
	}
}

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"-db", "d", "-items", "i", "-n", "3"}, io.Discard)
	if err != nil || c.db != "d" || c.items != "i" || c.n != 3 {
		t.Errorf("%+v, %v", c, err)
	}
	both := []string{"-db", "d", "-items", "i"}
	for _, args := range [][]string{
		{}, {"-db", "d"}, {"-items", "i"}, append(both, "more"), append(both, "-n", "0"), append(both, "-n", "1001"), append(both, "-capacity", "0"),
		append(both, "-fpr", "NaN"), append(both, "-simulate", "-1"), append(both, "-users", "0"), append(both, "-nonsense"),
	} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
