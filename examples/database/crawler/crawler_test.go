package main

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/weburl"
)

// childEnv makes the test's program be the command: it starts itself to measure.
const childEnv = "SHALE_CRAWLER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// asCommand lets the test's program start itself as the command.
func asCommand(t *testing.T) {
	t.Setenv(childEnv, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else a second for each process
}

// mustParse parses flags that have to be good.
func mustParse(t *testing.T, args ...string) config {
	t.Helper()
	c, err := parseFlags(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// realURLs returns the flags for the list of URLs, or none.
func realURLs(t *testing.T) []string {
	list, ok := testenv.FindShared(t, "data/malicious-urls.txt")
	if !ok {
		t.Log("made-up hosts instead of a list")
		return []string{"-hosts", "30000"}
	}
	return []string{"-urls", list}
}

// Each way, in a process of its own, keeps what the program says that it keeps.
func TestRun(t *testing.T) {
	asCommand(t)
	begin := time.Now()
	n := 250_000
	switch {
	case testenv.Race: // which slows SQLite to a tenth
		n = 20_000
	case testing.Short():
		n = 60_000
	}
	args := append(realURLs(t), "-n", strconv.Itoa(n), "-seed", strconv.FormatUint(testenv.Seed(t), 10))
	dir := filepath.Join(t.TempDir(), "files")
	c := mustParse(t, append(args, "-dir", dir)...)
	results, err := measureAll(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, c, results); err != nil {
		t.Fatal(err)
	}
	t.Logf("%v\n%s", time.Since(begin), out.String())
	if len(results) != len(ways) {
		t.Fatalf("%d results, want %d", len(results), len(ways))
	}
	for _, r := range results {
		if r.URLs != n || r.Distinct != results[0].Distinct || r.Distinct < n/10 || r.Nanos <= 0 {
			t.Errorf("%s: %d URLs, %d different, %d ns; want %d URLs", r.Way, r.URLs, r.Distinct, r.Nanos, n)
		}
		if kept := keeps(r.Way) != "nothing"; kept != (r.Disk > 0) {
			t.Errorf("%s: %d bytes on disk, but a kill leaves %q", r.Way, r.Disk, keeps(r.Way))
		}
		if !strings.Contains(out.String(), r.Way) {
			t.Errorf("the report does not mention %q", r.Way)
		}
	}
	if r := results[0]; r.Spellings < r.Distinct+r.Distinct/20 {
		t.Errorf("%d spellings of %d URLs: nothing to normalize", r.Spellings, r.Distinct)
	}
	checkBitmap(t, find(results, bitmapAlone))
	checkFilter(t, find(results, filterAlone), find(results, "set of strings"))
	checkStore(t, find(results, "shale"), find(results, "shale, no filters"))
	checkKept(t, c, filepath.Join(dir, "shale"))
}

// A few URLs take no memory and no time that could be measured, so nothing is said of them.
func TestSentences_FewURLs(t *testing.T) {
	for _, n := range []int{3, fewest - 1, fewest} {
		var results []*result
		for _, w := range ways {
			results = append(results, &result{Way: w.name, URLs: n, Distinct: n, Spellings: n, Nanos: int64(n) * 1000, Held: 1 << 20, FilterBytes: int64(2 * n), LookedInto: 5})
		}
		said := strings.Join(sentences(mustParse(t, "-n", "100"), results), "\n")
		for _, comparison := range []string{"% of the memory", "SQLite, with", "Without filters the same"} {
			if got, want := strings.Contains(said, comparison), n >= fewest; got != want {
				t.Errorf("%d URLs: %q is said: %v, want %v:\n%s", n, comparison, got, want, said)
			}
		}
		if strings.Contains(said, "not compared") != (n < fewest) {
			t.Errorf("%d URLs:\n%s", n, said)
		}
	}
}

// checkBitmap compares the bitmap's errors with the prediction.
func checkBitmap(t *testing.T, r *result) {
	t.Helper()
	want := predictBitmapWrong(r.Distinct, r.FilterBytes)
	if slack := 5*math.Sqrt(want) + want/50; math.Abs(float64(r.Wrong)-want) > slack {
		t.Errorf("the bitmap took %d URLs for seen; predicted are %.1f ± %.1f", r.Wrong, want, slack)
	}
}

// checkFilter compares the filter's errors with the prediction, and its memory
// with that of a set.
func checkFilter(t *testing.T, alone, set *result) {
	t.Helper()
	want := predictWrong(alone.Distinct, alone.FilterBytes)
	if slack := 5*math.Sqrt(want) + want/20 + 4; want < 5 || math.Abs(float64(alone.Wrong)-want) > slack {
		t.Errorf("the filter took %d URLs for seen; predicted are %.1f ± %.1f", alone.Wrong, want, slack)
	}
	if alone.FilterBytes > int64(alone.Distinct)*11/8+64 {
		t.Errorf("the filter of %d URLs has %d bytes", alone.Distinct, alone.FilterBytes)
	}
	if runtime.GOOS == "linux" && set.Held < set.URLBytes {
		t.Errorf("the set of %d bytes of URLs is said to take %d", set.URLBytes, set.Held)
	}
}

// checkStore checks that filters save what the report says. It checks bounds that always
// hold, because memtables are flushed at different times in each run.
func checkStore(t *testing.T, with, without *result) {
	t.Helper()
	if without.FilterBytes != 0 || without.InVain != 0 || without.Spared != 0 {
		t.Errorf("without filters: %+v", *without)
	}
	// A URL that was seen is in one table or in none.
	if again := uint64(with.URLs - with.Distinct); with.LookedInto > again+with.InVain {
		t.Errorf("looked into tables %d times, %d of them in vain, for %d URLs seen before", with.LookedInto, with.InVain, again)
	}
	// About 1.4 % at ten bits a key, and less while the store is small.
	if limit := uint64(with.Distinct / 40); with.InVain > limit {
		t.Errorf("filters let pass %d lookups of %d new URLs, want at most %d", with.InVain, with.Distinct, limit)
	}
	if few := testing.Short() || testenv.Race; !few && (with.Spared == 0 || with.LookedInto == 0 || without.LookedInto == 0) {
		t.Errorf("no table was asked: with filters %+v, without %+v", *with, *without)
	}
}

// checkKept opens the store that a crawler left, and finds all it saw, and nothing else.
func checkKept(t *testing.T, c config, dir string) {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := newStream(c)
	if err != nil {
		t.Fatal(err)
	}
	asked, passed := 0, 0
	for raw := range s.all() {
		if asked++; asked > 20_000 {
			break
		}
		url := []byte(weburl.Normalize(string(raw)))
		if ok, err := db.Has(url); !ok || err != nil || !db.MayContain(url) {
			t.Fatalf("Has(%q) = %v, %v and MayContain = %v after a restart", url, ok, err, db.MayContain(url))
		}
		other := append(url, "&never"...)
		if ok, err := db.Has(other); ok || err != nil {
			t.Fatalf("Has(%q) = %v, %v; it was never seen", other, ok, err)
		}
		if db.MayContain(other) {
			passed++
		}
	}
	if passed > asked/20 {
		t.Errorf("MayContain lets pass %d of %d new URLs", passed, asked)
	}
}

// A file that has repetitions itself is taken as it is.
func TestMeasure_AsTheyAre(t *testing.T) {
	file := filepath.Join(t.TempDir(), "urls")
	text := "http://a/\nhttp://b/\n\nhttp://a/\r\nHTTP://A\nhttp://c/" // a line ends with LF or CR LF
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c := mustParse(t, "-urls", file, "-n", "0", "-batch", "2", "-bits", "26")
	for _, name := range names() {
		r, err := measure(t.Context(), c, name, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if r.URLs != 5 || r.Spellings != 4 || r.Distinct != 3 || r.URLBytes != 27 {
			t.Errorf("%s: %d links, %d spellings, %d URLs of %d bytes; want 5, 4, 3, 27", name, r.URLs, r.Spellings, r.Distinct, r.URLBytes)
		}
	}
}

// An interrupted run, or one that fails, leaves nothing behind.
func TestRun_Interrupted(t *testing.T) {
	asCommand(t)
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, temp)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	c := mustParse(t, "-n", "100000000")
	if err := run(ctx, c, t.Output()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("run = %v", err)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRun_BadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-urls", filepath.Join(dir, "gone")}, "gone"},
		{[]string{"-urls", write("empty", "\n\n")}, "no URLs"},
		{[]string{"-urls", write("long", "http://a/\n"+strings.Repeat("x", maxURL))}, "after line 1"},
		{[]string{"-n", "0"}, "-n"},
		{[]string{"-n", "-1"}, "-n"},
		{[]string{"-zipf", "1"}, "-zipf"},
		{[]string{"-zipf", "NaN"}, "-zipf"},
		{[]string{"-bits", "3"}, "-bits"},
		{[]string{"-batch", "0"}, "-batch"},
		{[]string{"-only", "shale; shall"}, "shall"},
		{[]string{"more"}, "arguments"},
		{[]string{"-way", "none"}, "none"},
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

// A directory that an earlier run has filled is not taken for an empty one.
func TestRun_UsedDirectory(t *testing.T) {
	asCommand(t)
	c := mustParse(t, "-n", "10", "-only", "shale", "-dir", t.TempDir())
	if err := run(t.Context(), c, t.Output()); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), c, t.Output()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second run: %v", err)
	}
}

// Wrong answers of a way that must be exact are an error, and not a row of the table.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		r    result
		want bool
	}{
		{result{Way: "shale"}, true},
		{result{Way: "shale", Wrong: 1}, false},
		{result{Way: "shale", Missed: 1}, false},
		{result{Way: filterAlone, Wrong: 1}, true},
		{result{Way: bitmapAlone, Wrong: 1}, true},
		{result{Way: filterAlone, Missed: 1}, false},
	} {
		if err := test.r.check(); (err == nil) != test.want {
			t.Errorf("%+v: %v", test.r, err)
		}
	}
}

// AtomicBlocked documents 1.00 % at ten bits a key.
func TestPredictRate(t *testing.T) {
	if got := predictRate(1e6, 1e7/lineBits); math.Abs(got-0.01) > 0.0001 {
		t.Errorf("predicted at 10 bits a key: %.5f", got)
	}
}

// A URL of the list that has been normalized stays as it is.
func TestNormalize(t *testing.T) {
	args := realURLs(t)
	if args[0] != "-urls" {
		t.Skip("there is no ../shared here")
	}
	file, err := os.Open(args[1])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		once := weburl.Normalize(lines.Text())
		if twice := weburl.Normalize(once); twice != once {
			t.Errorf("%q, then %q, then %q", lines.Text(), once, twice)
		}
	}
}
