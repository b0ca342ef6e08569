package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/pauses/pause"
)

// A test is a test that runs again and again, but never twice at the same time. A test with
// several turns is several tests.
type test struct {
	id                int
	dir, name, binary string

	runs  int
	count int          // how often a run repeats it; 0: not known yet
	sites map[int]bool // sites that it has passed
	turn  []int        // sites that still have to pause in this turn
}

const (
	// runTime is how long a run should take. A run repeats a short test.
	runTime = time.Second
	// pausing is the part of a run in which there are pauses.
	pausing = 3 * runTime
	// hangs is the time after which a test counts as hanging.
	hangs = 90 * time.Second
	// A run pauses at a share of 1/fewSites of the test's sites, and one run in four at
	// 1/manySites of them. Few pauses find most bugs sooner, because the goroutines that
	// have to overtake run at full speed. But a bug may need two pauses.
	fewSites, manySites = 64, 16
)

// try runs a test, with the pauses that seed chooses. The error says that the test has
// failed. If no sites are given, the first run has no pauses: it shows which sites the test
// passes, and how long it takes.
func (r *runner) try(ctx context.Context, t *test, seed uint64) error {
	begin := time.Now()
	if t.count == 0 && r.only != nil {
		t.count = 1
	}
	if t.count == 0 {
		if out, err := r.exec(ctx, t, seed, nil, 1); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s\n%s: FAILED without a pause: %w", shown(out), t.name, err)
		}
		t.count = int(min(max(runTime/max(time.Since(begin), time.Millisecond), 1), 10)) // repeats a short test
		return nil
	}
	slow := r.only
	if slow == nil {
		slow = t.choose(seed)
	}
	out, err := r.exec(ctx, t, seed, slow, t.count)
	if ctx.Err() != nil {
		return nil
	}
	t.runs++
	if r.verbose {
		fmt.Printf("%-40s seed %d, %d times, %d of %d sites, %v\n", t.name, seed, t.count, len(slow), len(t.sites), time.Since(begin).Round(time.Millisecond))
	}
	if err == nil {
		switch took := time.Since(begin); {
		case took > 2*runTime:
			t.count = max(1, int(time.Duration(t.count)*runTime/took))
		case took < runTime/2:
			t.count = min(2*t.count, 200)
		}
		return nil
	}
	after := time.Since(r.begin).Round(time.Second)
	names, race := make([]string, 0, len(slow)), ""
	for _, id := range r.narrow(t, seed, slow) {
		names = append(names, r.sites[id])
	}
	if r.race {
		race = "RACE=1 "
	}
	return fmt.Errorf("%s\n%s: FAILED after %v, in its run %d: %w. To repeat it:\n    make pauses %sSEED=%d RUN='^%s$$' SITES=%s",
		shown(out), t.name, after, t.runs, err, race, seed, t.name, strings.Join(names, ","))
}

// choose returns the sites for the next run. All sites of the test have their
// turn, in a random order.
func (t *test) choose(seed uint64) []int {
	n := max(2, len(t.sites)/fewSites)
	if seed%4 == 0 {
		n = max(2, len(t.sites)/manySites)
	}
	if len(t.turn) < n {
		t.turn = slices.Sorted(maps.Keys(t.sites))
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(t.turn), func(i, j int) { t.turn[i], t.turn[j] = t.turn[j], t.turn[i] })
	}
	n = min(n, len(t.turn))
	slow := t.turn[:n]
	t.turn = t.turn[n:]
	return slow
}

// narrow looks for one site that is enough for the failure. If it finds none, it
// returns slow.
func (r *runner) narrow(t *test, seed uint64, slow []int) []int {
	if len(slow) == 1 {
		return slow
	}
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	for range 2 {
		for _, id := range slow {
			if _, err := r.exec(ctx, t, seed, []int{id}, t.count); err != nil && ctx.Err() == nil {
				return []int{id}
			}
		}
	}
	return slow
}

// exec runs the test in a process, and adds the sites that it has passed to t.sites.
func (r *runner) exec(ctx context.Context, t *test, seed uint64, slow []int, count int) ([]byte, error) {
	seen := filepath.Join(r.dir, fmt.Sprintf("%d.seen", t.id))
	plan := pause.Plan{Sites: len(r.sites), Slow: slow, Seed: seed, For: pausing, Seen: seen}
	temp, err := os.MkdirTemp(r.dir, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	c := exec.CommandContext(ctx, t.binary, "-test.run", "^"+t.name+"$", "-test.short", "-test.count", strconv.Itoa(count),
		"-test.timeout", hangs.String(), "-test.failfast")
	c.Dir = filepath.Join(r.root, t.dir)
	c.Env = append(os.Environ(), pause.Variable+"="+plan.Encode(), fmt.Sprintf("SHALE_SEED=%d", seed), "TMPDIR="+temp,
		fmt.Sprintf("GOMAXPROCS=%d", 2+2*(seed%2)))
	out, err := c.CombinedOutput()
	text, _ := os.ReadFile(seen) // there is no file if the test passes no site
	for line := range bytes.Lines(text) {
		if id, err := strconv.Atoi(strings.TrimSpace(string(line))); err == nil && id < len(r.sites) {
			t.sites[id] = true
		}
	}
	return out, cmp.Or(err, os.RemoveAll(seen))
}

// shown returns the output of a test, shortened by tail. If that leaves lines out, the whole
// output stays in a file, which the last line names: a failure may never come again.
func shown(out []byte) string {
	short := tail(out)
	if len(short) >= len(bytes.TrimSpace(out)) {
		return short
	}
	f, err := os.CreateTemp("", "pauses-*.txt")
	if err != nil {
		return short
	}
	_, err = f.Write(out)
	if err = errors.Join(err, f.Close()); err != nil {
		return short + "\nthe whole output is lost: " + err.Error()
	}
	return short + "\nthe whole output: " + f.Name()
}

// tail returns the output of a test, shortened to its first 25 and last 15 lines.
func tail(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) > 40 {
		lines = append(append(lines[:25:25], []byte("...")), lines[len(lines)-15:]...)
	}
	for i, l := range lines {
		lines[i] = l[:min(len(l), 400)]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
