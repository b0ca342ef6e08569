// Pauses runs the concurrency tests on code in which goroutines pause at random
// places: `make pauses T=5m`.
//
// A bug that lies between two neighbouring lines shows only if one goroutine stops between
// them while others go on. The scheduler hardly ever does that. So this program rewrites
// packages into copies. In a copy, package pause may wait after each atomic access, lock,
// unlock and channel operation; such a place is a site. The program builds the tests with
// the copies (go test -overlay; the tree does not change). Then it runs one test after the
// other, again and again. Each run has a seed. It chooses some of the sites that the test
// passes, in turns. Only these sites pause; all others run at full speed.
//
// If a run fails or hangs, the program looks for a single site that is enough for the
// failure, and then prints the command that repeats the run. Scheduling stays random. So a
// run with a given seed and given sites is repeated until it fails or the time is over.
//
// With -race the tests are built with the race detector.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// shalePackages are the packages that get pauses.
var shalePackages = []string{"./", "./memtable", "./internal/cache", "./internal/commit", "./internal/filecache", "./internal/health", "./internal/logset", "./internal/offheap", "./internal/residency", "./internal/scheduler", "./internal/tree", "./wal", "./manifest"}

// shaleTests are the tests of concurrency. Tests that run many different calls at
// once have more turns.
var shaleTests = []testsOf{
	{"./test/linear", `^TestLinear$`, 5},
	{"./test/linear", `^TestOwners$`, 3},
	{"./", `^Test(PutIfAbsent_OneWinner|Close_BesideEveryCall|ExportFilters_Meanwhile)$`, 1},
	{"./memtable", `^Test(Concurrent_ReadersBesideTheWriter|Memory_ReadersAndRelease|Pivot_Race)$`, 1},
	{"./internal/cache", `^Test(Peek_(Concurrent|WhileTheTableGrows)|Cache_(Concurrent|FindsWhatIsThere)|` +
		`Block_LateReaders|FalsePositives_Concurrent)$`, 1},
	{"./wal", `^Test(SyncTo_Shared|Close_WaitsForSync|Writer_Concurrent)$`, 1},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("pauses: ")
	r := runner{module: module, packages: shalePackages, tests: shaleTests}
	flag.DurationVar(&r.time, "t", time.Minute, "how `long`")
	flag.Uint64Var(&r.seed, "seed", 0, "only runs with this `seed`")
	flag.StringVar(&r.run, "run", "", "only tests that match this `regexp`, of all tests")
	flag.StringVar(&r.slow, "sites", "", "pauses at these `sites` (file.go:line, by commas) and at no others")
	flag.BoolVar(&r.race, "race", false, "build the tests with the race detector")
	flag.BoolVar(&r.verbose, "v", false, "print each run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r.ctx = ctx
	failed, err := r.all()
	if err != nil {
		log.Print(err)
	}
	if err != nil || failed > 0 {
		os.Exit(1) // stop would change nothing any more
	}
}

// A testsOf is the tests of one package whose names match a regular expression.
type testsOf struct {
	dir, match string
	turns      int // of each test, while a test with one turn runs once
}

// A runner is one call of the command. Its method all rewrites the packages and builds
// the tests (build), and then runs them until the time is over (loop). Each run of a test
// is a process (try and exec).
type runner struct {
	ctx      context.Context // ends at an interrupt
	module   string
	packages []string
	tests    []testsOf

	// The flags. A seed of 0 means a random one.
	time          time.Duration
	seed          uint64
	run, slow     string
	race, verbose bool

	root  string   // the directory of the module
	dir   string   // of temporary files
	sites []string // names of all sites; the index is the number of the site
	only  []int    // numbers of the sites in slow; nil: sites are chosen by the seed
	begin time.Time
}

// all does everything, and returns how many tests have failed.
func (r *runner) all() (failed int, err error) {
	if r.root == "" {
		if r.root, err = os.Getwd(); err != nil {
			return 0, err
		}
	}
	if _, err := os.Stat(filepath.Join(r.root, "internal/pauses")); err != nil {
		return 0, fmt.Errorf("to be run at the root of the module: %w", err)
	}
	if r.dir, err = os.MkdirTemp("", "pauses"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(r.dir)
	list, err := r.build()
	if err != nil {
		return 0, err
	}
	if r.only, err = sitesNamed(r.sites, r.slow); err != nil {
		return 0, err
	}
	r.begin = time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, r.time)
	defer cancel()
	return r.loop(ctx, list), nil
}

// build rewrites the packages and builds a test binary for each directory. It returns the
// tests, each as often as it has turns.
func (r *runner) build() ([]*test, error) {
	w := newRewriter(r.module)
	var flags []string
	if r.race {
		flags = append(flags, "-race")
	}
	overlay, err := w.overlay(r.root, r.dir, r.packages, flags)
	if err != nil {
		return nil, err
	}
	r.sites = w.sites
	binaries := make(map[string]string)
	var list []*test
	for _, p := range r.tests {
		match, turns := p.match, p.turns
		if r.run != "" {
			match, turns = r.run, 1
		}
		binary, built := binaries[p.dir]
		if built && r.run != "" {
			continue
		}
		if !built {
			binary = filepath.Join(r.dir, fmt.Sprintf("%d.test", len(binaries)))
			binaries[p.dir] = binary
			build := exec.CommandContext(r.ctx, "go", append([]string{"test", "-c", "-ldflags=-w", "-overlay", overlay, "-o", binary, p.dir}, flags...)...)
			build.Dir = r.root
			if out, err := build.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("go test -c %s: %w\n%s", p.dir, err, out)
			}
		}
		c := exec.CommandContext(r.ctx, binary, "-test.list", match)
		c.Dir = filepath.Join(r.root, p.dir)
		out, err := c.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", p.dir, err, out)
		}
		for name := range strings.FieldsSeq(string(out)) {
			for range turns {
				if strings.HasPrefix(name, "Test") {
					list = append(list, &test{id: len(list), dir: p.dir, name: name, binary: binary, sites: make(map[int]bool)})
				}
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no test matches %s", r.run)
	}
	return list, nil
}

// sitesNamed returns the numbers of the sites in a list of names, which is
// separated by commas.
func sitesNamed(names []string, list string) (ids []int, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		id := -1
		for i, n := range names {
			if n == name {
				id = i
			}
		}
		if id < 0 {
			return nil, fmt.Errorf("there is no site %s", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// loop runs the tests in turns, as many at a time as there are processors, until the time
// is over. It returns how many tests have failed. A test that has failed is not run again.
//
// Each worker takes a test from the channel waiting, runs it, and puts it back. So no test
// runs twice at the same time, and fields of test need no lock.
func (r *runner) loop(ctx context.Context, list []*test) int {
	seed := r.seed
	if seed == 0 {
		seed = rand.Uint64() >> 40
	}
	fmt.Printf("%d sites; the first seed is %d\n", len(r.sites), seed)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := make(chan *test, len(list))
	for _, t := range list {
		waiting <- t
	}
	var mu sync.Mutex // guards seed, bad and left
	bad, left := make(map[string]bool), len(list)
	var group sync.WaitGroup
	work := func() {
		for {
			var t *test
			select {
			case t = <-waiting:
			case <-ctx.Done():
				return
			}
			mu.Lock()
			mine, skip := seed, bad[t.name]
			if r.seed == 0 {
				seed++
			}
			mu.Unlock()
			var err error
			if !skip {
				err = r.try(ctx, t, mine)
			}
			mu.Lock()
			if err != nil && !bad[t.name] {
				bad[t.name] = true
				fmt.Println(err)
			}
			if skip || err != nil {
				if left--; left == 0 {
					cancel()
				}
			} else {
				waiting <- t
			}
			mu.Unlock()
		}
	}
	for range min(runtime.NumCPU(), len(list)) {
		group.Go(work)
	}
	group.Wait()
	runs, names := 0, make(map[string]bool)
	for _, t := range list {
		runs += t.runs
		names[t.name] = true
	}
	fmt.Printf("%d runs in %v; %d of %d tests failed\n", runs, time.Since(r.begin).Round(time.Second), len(bad), len(names))
	return len(bad)
}
