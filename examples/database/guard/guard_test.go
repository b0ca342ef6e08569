package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// mustParse parses flags that have to be good.
func mustParse(t *testing.T, args ...string) config {
	t.Helper()
	c, err := parseFlags(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// realNames returns the flags for a list of names, or none.
func realNames(t *testing.T, list string) []string {
	path, ok := testenv.FindShared(t, "data/"+list)
	if !ok {
		t.Log("made-up names instead of a list")
		return nil
	}
	return []string{"-names", path}
}

// Guards give no wrong answer, and save as many queries as expected.
func TestRun(t *testing.T) {
	users, n := 30_000, 40_000
	lists := []string{"words-en.txt", "benign-hosts.txt"}
	switch {
	case testenv.Race: // which slows SQLite to a tenth
		users, n, lists = 5_000, 6_000, lists[:1]
	case testing.Short():
		users, n, lists = 10_000, 20_000, lists[:1]
	}
	for _, list := range lists {
		begin := time.Now()
		c := mustParse(t, append(realNames(t, list), "-users", strconv.Itoa(users), "-n", strconv.Itoa(n), "-cache", "500",
			"-signups", "0.002", "-seed", strconv.FormatUint(testenv.Seed(t), 10))...)
		names, err := readNames(c)
		if err != nil {
			t.Fatal(err)
		}
		l, err := newLoad(t.Context(), c, names)
		if err != nil {
			t.Fatal(err)
		}
		results, err := measureAll(t.Context(), c, t.TempDir(), names, l)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := report(&out, c, len(names), l, results); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %v\n%s", list, time.Since(begin), out.String())
		for _, r := range results {
			checkResult(t, r, l)
			if !strings.Contains(out.String(), r.way) {
				t.Errorf("the report does not mention %q", r.way)
			}
		}
		checkSaved(t, results, l)
	}
}

// checkResult checks what holds for each way.
func checkResult(t *testing.T, r *result, l *load) {
	t.Helper()
	if r.wrong != 0 {
		t.Errorf("%s: %d wrong answers", r.way, r.wrong)
	}
	if got, want := r.queries+r.cached+r.stopped, int64(l.present+l.absent); got != want {
		t.Errorf("%s: %d requests were answered, want %d", r.way, got, want)
	}
	if r.p50 <= 0 || r.p99 < r.p50 || r.took < r.p99 {
		t.Errorf("%s: half of the requests took up to %v, 99 %% up to %v, all together %v", r.way, r.p50, r.p99, r.took)
	}
}

// checkSaved compares the number of queries with the prediction.
func checkSaved(t *testing.T, results []*result, l *load) {
	t.Helper()
	alone := find(results, "cache alone")
	if alone.vain != int64(l.absent) || alone.stopped != 0 {
		t.Errorf("without a guard, %d queries were in vain and %d requests were stopped; %d are for absent users", alone.vain, alone.stopped, l.absent)
	}
	for _, way := range []string{"cache and filter", "cache and shale"} {
		r := find(results, way)
		if r.vain+r.stopped != int64(l.absent) {
			t.Errorf("%s: %d requests in vain and %d stopped, want %d in all", way, r.vain, r.stopped, l.absent)
		}
		// Chance, and that made-up names are not spread quite like real ones.
		want := r.rate * float64(l.absent)
		if slack := 4*math.Sqrt(want) + want/5 + 4; math.Abs(float64(r.vain)-want) > slack || r.rate > 0.01 {
			t.Errorf("%s: %d queries in vain; expected are %.1f ± %.1f", way, r.vain, want, slack)
		}
		// The queries for users that are there stay, but for what the order of
		// the clients changes in the cache.
		there, before := r.queries-r.vain, alone.queries-alone.vain
		if d := math.Abs(float64(there - before)); d > float64(before)/5+100 {
			t.Errorf("%s: %d queries for users that are there, %d without a guard", way, there, before)
		}
	}
}

// A forgetful guard lets add be forgotten, or fail.
type forgetful struct {
	guard
	err error
}

func (f forgetful) add(string) error { return f.err }

// testService returns a service of a few users, with a filter.
func testService(t *testing.T) *service {
	t.Helper()
	u, err := openUsers(t.Context(), filepath.Join(t.TempDir(), "users.sqlite"), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.close(); err != nil {
			t.Error(err)
		}
	})
	if err := u.fill(t.Context(), []string{"ann", "bob"}); err != nil {
		t.Fatal(err)
	}
	g, err := openFilter(t.Context(), u, "")
	if err != nil {
		t.Fatal(err)
	}
	return &service{users: u, guard: g, cache: newCache(10)}
}

// The check of answers notices a guard that is not kept up to date.
func TestServe_ForgetfulGuard(t *testing.T) {
	s := testService(t)
	l := &load{clients: [][]request{nil}}
	l.add(0, request{name: "ann", there: true}, request{name: "eve", signUp: true}, request{name: "eve", there: true})
	s.guard = forgetful{guard: s.guard}
	var r result
	if err := r.serve(t.Context(), s, l); err != nil || r.wrong != 1 {
		t.Errorf("%d wrong answers, %v; want 1", r.wrong, err)
	}
}

// A user whose name could not be added to the guard is not written.
func TestSignUp_GuardFails(t *testing.T) {
	s := testService(t)
	broken := errors.New("broken")
	s.guard = forgetful{s.guard, broken}
	if err := s.signUp(t.Context(), "eve", "x"); !errors.Is(err, broken) {
		t.Errorf("signUp = %v", err)
	}
	if n, err := s.users.count(t.Context()); n != 2 || err != nil {
		t.Errorf("%d users, %v; want 2", n, err)
	}
}

// A user who has signed up exists for everybody, also for clients that have asked before or
// at the same time, and if the cache keeps absent users.
func TestSignUp_SeenByAll(t *testing.T) {
	s := testService(t)
	s.keepAbsent = true
	s.cache = newCache(1000)
	for i := range 100 {
		name := fmt.Sprint("new", i)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for found := false; !found; {
					var err error
					if _, found, err = s.user(t.Context(), name); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		if err := s.signUp(t.Context(), name, profile(name)); err != nil {
			t.Error(err)
		}
		if got, found, err := s.user(t.Context(), name); !found || got != profile(name) || err != nil {
			t.Errorf("user(%q) = %q, %v, %v after signing up", name, got, found, err)
		}
		wg.Wait()
	}
}

func TestCache(t *testing.T) {
	c := newCache(2)
	_, _, changes := c.get("a")
	c.put(answer{name: "a"}, changes)
	c.put(answer{name: "b", found: true}, changes)
	c.get("a") // b is the oldest now
	c.put(answer{name: "c"}, changes)
	want := func(name string, there bool) {
		t.Helper()
		if _, ok, _ := c.get(name); ok != there {
			t.Errorf("%q in the cache: %v, want %v", name, ok, there)
		}
	}
	want("a", true)
	want("b", false)
	want("c", true)
	c.forget("a")
	c.put(answer{name: "a"}, changes) // looked up before the change
	want("a", false)
}

func TestRun_BadInput(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-names", filepath.Join(dir, "gone")}, "gone"},
		{[]string{"-names", empty}, "no names"},
		{[]string{"-users", "0"}, "-users"},
		{[]string{"-clients", "2000"}, "-clients"},
		{[]string{"-absent", "1.5"}, "-absent"},
		{[]string{"-absent", "NaN"}, "-absent"},
		{[]string{"-signups", "0.5"}, "-signups"},
		{[]string{"-zipf", "0.9"}, "-zipf"},
		{[]string{"more"}, "arguments"},
	} {
		c, err := parseFlags(test.args, t.Output())
		if err == nil {
			err = run(t.Context(), c, t.Output())
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v; want an error about %q", test.args, err, test.want)
		}
	}
}

// An interrupted run leaves nothing behind, wherever it was.
func TestRun_Interrupted(t *testing.T) {
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, temp)
	}
	c := mustParse(t, "-users", "2000", "-n", "1000000", "-absent", "1", "-signups", "0")
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 400 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		err := run(ctx, c, t.Output())
		cancel()
		if err == nil || ctx.Err() == nil {
			t.Errorf("after %v: %v", after, err)
		}
		left, err := os.ReadDir(temp)
		if err != nil || len(left) > 0 {
			t.Errorf("after %v, left behind: %v, %v", after, left, err)
		}
	}
}
