package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// loaded returns the directory of a store with these lines.
func loaded(t testing.TB, lines []string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	mustLoad(t, dir, lines)
	return dir
}

func mustLoad(t testing.TB, dir string, lines []string) {
	t.Helper()
	if err := load(t.Context(), dir, strings.NewReader(strings.Join(lines, "\n")), io.Discard); err != nil {
		t.Fatal(err)
	}
}

// verdicts judges lines, and returns the verdict of each, and the last line.
func verdicts(t testing.TB, dir string, lines []string) (got []string, totals string) {
	t.Helper()
	var out bytes.Buffer
	if err := answer(dir, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	got = strings.Split(out.String(), "\n")
	for i, line := range lines {
		got[i] = strings.TrimPrefix(got[i], line+": ")
	}
	return got[:len(lines)], got[len(lines)]
}

// hosts returns bad and good hosts, real ones or made-up ones.
func hosts(t testing.TB, real bool) (bad, good []string) {
	t.Helper()
	rng, step := rand.New(rand.NewPCG(testenv.Seed(t), 0)), 1
	if testing.Short() || testenv.Race {
		step = 5
	}
	if !real {
		for i := range 20_000 / step {
			bad = append(bad, fmt.Sprintf("h%07x.bad%d.example", rng.IntN(1<<28), i))
			good = append(good, fmt.Sprintf("h%07x.good%d.example", rng.IntN(1<<28), i))
		}
		return bad, good
	}
	every := func(step int, name string) (part []string) {
		all := strings.Fields(string(testenv.ReadShared(t, "data/"+name+".txt")))
		for i := 0; i < len(all); i += step {
			part = append(part, all[i])
		}
		return part
	}
	return every(20*step, "malicious-hosts"), every(12*step, "benign-hosts")
}

// Every verdict is that of a set of the hosts, the filter has the rate that it predicts, and
// the store is asked once for each of its mistakes.
func TestJudge(t *testing.T) {
	for name, real := range map[string]bool{"real": true, "made": false} {
		t.Run(name, func(t *testing.T) {
			bad, good := hosts(t, real)
			set := make(map[string]bool)
			for _, host := range bad {
				set[host] = true
			}
			lines := slices.Concat(bad, good, good)
			for _, host := range bad[:len(bad)/5] {
				lines = append(lines, "Someone <some.one@WWW.sub."+strings.ToUpper(host)+">")
			}
			got, totals := verdicts(t, loaded(t, bad), lines)
			for i, line := range lines {
				want := "ok"
				for _, name := range names(line) {
					if set[name] {
						want = "listed as " + name
						break
					}
				}
				if got[i] != want {
					t.Fatalf("%s: %s, want %s", line, got[i], want)
				}
			}
			t.Log(totals)
			var passed, absent, predicted, lookups, asked int
			if _, err := fmt.Sscanf(totals, "The filter let pass %d of %d absent names, predicted %d. The store was asked %d times for %d names.",
				&passed, &absent, &predicted, &lookups, &asked); err != nil {
				t.Fatal(err)
			}
			// Each good host is asked for twice, and parents again and again; each of them passes or not as one.
			mean := float64(predicted)
			if absent < 2*len(good) || math.Abs(float64(passed)-mean) > 9*math.Sqrt(mean)+mean/4 {
				t.Errorf("%d of %d absent names pass, predicted %d", passed, absent, predicted)
			}
			if most := asked - absent + passed*3/4; lookups > most {
				t.Errorf("%d lookups for %d names that are listed and %d that passed", lookups, asked-absent, passed)
			}
		})
	}
}

// After any loads, with lines that are added and taken off, the verdicts are those of a set.
func TestLoad(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	dir, set := loaded(t, []string{"first.example"}), map[string]bool{"first.example": true}
	for range 12 {
		var lines, asked []string
		for range rng.IntN(400) {
			n := rng.IntN(500)
			name := []string{fmt.Sprintf("h%d.example", n), fmt.Sprintf("user%d@mail.example", n), fmt.Sprintf("http://www.example/%d", n)}[n%3]
			asked = append(asked, name)
			if off := rng.IntN(2) == 0; off {
				lines = append(lines, "-"+name)
				delete(set, name)
			} else {
				lines = append(lines, name)
				set[name] = true
			}
		}
		mustLoad(t, dir, lines)
		asked = append(asked, slices.Collect(maps.Keys(set))...)
		got, _ := verdicts(t, dir, asked)
		for i, name := range asked {
			if want := map[bool]string{true: "listed as " + name, false: "ok"}[set[name]]; got[i] != want {
				t.Fatalf("%s: %s, want %s", name, got[i], want)
			}
		}
	}
}

// A load that fails leaves no filter that knows less than the store.
func TestLoad_NoOldFilter(t *testing.T) {
	dir := loaded(t, []string{"old.example"})
	if err := load(t.Context(), dir, strings.NewReader("new.example\nno host"), io.Discard); err == nil || !strings.Contains(err.Error(), "there is no filter now") {
		t.Errorf("load of what is no list: %v", err)
	}
	if err := answer(dir, strings.NewReader("new.example"), io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("judge after it: %v", err)
	}
	mustLoad(t, dir, []string{"new.example"})
	if got, _ := verdicts(t, dir, []string{"new.example", "old.example", "no host"}); !slices.Equal(got, []string{"listed as new.example", "listed as old.example", "unclear"}) {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filterOf(dir), []byte("no filter"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := answer(dir, strings.NewReader("new.example"), io.Discard); err == nil {
		t.Error("no error of a damaged filter")
	}
}

func TestNames(t *testing.T) {
	for line, want := range map[string]string{
		"Example.ORG.": "example.org", "localhost": "localhost", "a.b.example.org": "a.b.example.org b.example.org example.org", "192.0.2.1": "192.0.2.1",
		"Me@C.org": "me@c.org c.org", "Me <me@a.c.org>": "me@a.c.org a.c.org c.org", "x@[192.0.2.1]": "x@[192.0.2.1] [192.0.2.1]", "2001:db8::1": "2001:db8::1",
		"HTTP://A.org/c#top": "http://a.org/c a.org", "https://a.org:8443/C?d": "https://a.org:8443/C?d a.org", "http://good.org@bad.org/": "http://good.org@bad.org/ bad.org",
		"http://[2001:DB8::1]/x": "http://[2001:db8::1]/x 2001:db8::1", "a..b": "a..b .b",
		"": "", "a b": "", "me@": "", "@c.org": "", "write to me@c.org": "", "a.org/b": "", "ftp://a/b": "", "http:///b": "", strings.Repeat("a", 254): "",
	} {
		if got := strings.Join(names(line), " "); got != want {
			t.Errorf("names(%.80q) = %q, want %q", line, got, want)
		}
	}
}
