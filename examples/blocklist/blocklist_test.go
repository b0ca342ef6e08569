package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A sample is the input of a test: lists to load and hosts to ask for.
type sample struct{ bad, good, top []string }

// realLists returns parts of the real lists; without them the test is skipped.
func realLists(t testing.TB) sample {
	t.Helper()
	var lists [3][]string
	for i, name := range []string{"malicious-hosts", "benign-hosts", "top-domains-10k"} {
		lists[i] = strings.Fields(string(testenv.ReadShared(t, "data/"+name+".txt")))
	}
	return sample{every(20*step(), lists[0]), every(12*step(), lists[1]), lists[2]}
}

// step makes short runs ask less.
func step() int {
	if testing.Short() || testenv.Race {
		return 5
	}
	return 1
}

func every(step int, list []string) (part []string) {
	for i := 0; i < len(list); i += step {
		part = append(part, list[i])
	}
	return part
}

func madeLists(t testing.TB) (s sample) {
	t.Helper()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	for i := range 20_000 / step() {
		s.bad = append(s.bad, fmt.Sprintf("h%07x.bad%d.example", rng.IntN(1<<28), i))
		s.good = append(s.good, fmt.Sprintf("h%07x.good%d.example", rng.IntN(1<<28), i))
	}
	s.top = slices.Concat(s.good[:900], s.bad[:100])
	return s
}

func write(t testing.TB, lines []string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// loaded loads a list.
func loaded(t testing.TB, bad []string) config {
	t.Helper()
	dir := t.TempDir()
	c := config{job: "load", db: filepath.Join(dir, "db"), filter: filepath.Join(dir, "filter"), bits: 12, lists: []string{write(t, bad)}, cache: 1 << 20}
	var out bytes.Buffer
	if err := run(t.Context(), c, nil, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), fmt.Sprintf("%d lines read; %d names", len(bad), len(bad))) {
		t.Errorf("%s", out.String())
	}
	return c
}

// Every verdict is that of a set of the hosts, and the filter has the rate that
// it predicts.
func TestJudge(t *testing.T) {
	for name, lists := range map[string]func(testing.TB) sample{"real": realLists, "made": madeLists} {
		t.Run(name, func(t *testing.T) {
			s := lists(t)
			set := make(map[string]bool)
			for _, host := range s.bad {
				set[host] = true
			}
			var asked, want []string
			ask := func(line, host string) {
				verdict := "ok"
				for name := range withParents(host) {
					if set[name] {
						verdict = "listed as " + name
						break
					}
				}
				asked, want = append(asked, line), append(want, line+": "+verdict)
			}
			for i, host := range s.bad {
				ask(host, host)
				if i%5 == 0 {
					ask("Someone <some@one@WWW.sub."+strings.ToUpper(host)+".>", "www.sub."+host)
				}
			}
			for _, host := range s.good {
				ask(host, host)
			}
			c := loaded(t, s.bad)
			c.job = "judge"
			var out bytes.Buffer
			if err := run(t.Context(), c, strings.NewReader(strings.Join(asked, "\n")), &out); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			for i, line := range lines[:len(want)] {
				if line != want[i] {
					t.Fatalf("%q, want %q", line, want[i])
				}
			}
			t.Logf("%s", strings.Join(lines[len(want):], "\n"))
			var passed, absent int
			if _, err := fmt.Sscanf(lines[len(want)+1], "The filter let pass %d of %d absent names", &passed, &absent); err != nil {
				t.Fatal(err)
			}
			f, err := openFilter(c.filter)
			if err != nil {
				t.Fatal(err)
			}
			// Parents are asked for again and again; each of them passes or not as one.
			mean := float64(absent) * f.FPR()
			var lookups, saved int
			if _, after, _ := strings.Cut(lines[len(want)+1], "which took "); true {
				if _, err := fmt.Sscanf(after, "%d lookups; %d were saved", &lookups, &saved); err != nil {
					t.Fatal(err)
				}
			}
			// Each name that passes is looked up once, unless many of them share a place in the list.
			if lookups+saved != passed || lookups > passedOnce(f, asked, set)+passed/20 {
				t.Errorf("%d lookups for %d that passed, %d saved; %d different names pass", lookups, passed, saved, passedOnce(f, asked, set))
			}
			if absent < len(s.good) || math.Abs(float64(passed)-mean) > 6*math.Sqrt(mean)+mean/4 {
				t.Errorf("%d of %d absent names pass, predicted %.0f", passed, absent, mean)
			}
		})
	}
}

// passedOnce returns how many different names pass the filter although they are not listed.
func passedOnce(f filter, lines []string, set map[string]bool) int {
	passed := make(map[string]bool)
	for _, line := range lines {
		e, _ := entryOf(line)
		for name := range e.names() {
			if set[name] {
				break
			}
			if f.MayContainString(name) {
				passed[name] = true
			}
		}
	}
	return len(passed)
}

// The filters save nearly all reads of blocks, and change no answer.
func TestTraffic(t *testing.T) {
	for name, lists := range map[string]func(testing.TB) sample{"real": realLists, "made": madeLists} {
		t.Run(name, func(t *testing.T) {
			s, set := lists(t), make(map[string]bool)
			for _, host := range s.bad {
				set[host] = true
			}
			c := loaded(t, s.bad)
			c.job, c.top, c.lookups = "traffic", write(t, s.top), 20_000/step()
			var out bytes.Buffer
			if err := run(t.Context(), c, nil, &out); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", out.String())
			var names, blocks, vain, listed [4]int
			for i, line := range strings.Split(out.String(), "\n")[2:6] {
				var disk int
				if _, err := fmt.Sscan(line[22:], &names[i], &blocks[i], &vain[i], &disk, &listed[i]); err != nil {
					t.Fatal(err)
				}
			}
			if names[0] < c.lookups || names[1] != names[0] || listed[1] != listed[0] || listed[2] != listed[0] || blocks[0] < names[0]/2 {
				t.Errorf("names %v, listed %v, blocks %v", names, listed, blocks)
			}
			// A popular domain may pass the filter, and then does so each time.
			// These are counted.
			f, err := openFilter(c.filter)
			if err != nil {
				t.Fatal(err)
			}
			pass, rank := 0, zipf(len(s.top))
			for range c.lookups {
				for name := range withParents(s.top[rank()]) {
					if f.MayContainString(name) {
						pass++
					}
					if set[name] {
						break // listed: nobody asks for the domains above it
					}
				}
			}
			distinct := passedOnce(f, s.top, set)
			if names[3]-listed[3] > distinct || listed[3] != listed[0] {
				t.Errorf("%d lookups in vain of %d names that pass", names[3]-listed[3], distinct)
			}
			if vain[1] > vain[0]/20 || vain[2] > vain[1] || names[2] != pass {
				t.Errorf("in vain %v, names that reached the store %v, want %d with the filter file", vain, names, pass)
			}
		})
	}
}

// The ranks have their shares.
func TestZipf(t *testing.T) {
	rank := zipf(100)
	var counts [100]int
	const n = 100_000
	for range n {
		counts[rank()]++
	}
	sum := 0.0
	for r := range counts {
		sum += 1 / float64(r+1)
	}
	for r, got := range counts {
		want := n / float64(r+1) / sum
		if math.Abs(float64(got)-want) > 5*math.Sqrt(want) {
			t.Errorf("rank %d: %d, want %.0f", r, got, want)
		}
	}
}

func TestEntryOf(t *testing.T) {
	for _, tt := range []struct {
		line, whole, host string
		ok                bool
	}{
		{"", "", "", true}, {"# comment", "", "", true}, {" Example.ORG. ", "", "example.org", true}, {"<example.org>", "", "example.org", true},
		{"Me@C.org.", "me@c.org", "c.org", true}, {"a@b@c.org", "a@b@c.org", "c.org", true}, {"Me <me@c.org>", "me@c.org", "c.org", true},
		{"x@[192.0.2.1]", "x@192.0.2.1", "192.0.2.1", true}, {"2001:db8::1", "", "2001:db8::1", true},
		{"HTTP://A.org:80/b/../c#top", "http://a.org/c", "a.org", true}, {"https://a.org:8443", "https://a.org:8443/", "a.org", true},
		{"http://good.org@bad.org/", "http://good.org@bad.org/", "bad.org", true}, {"http://[2001:DB8::1]/x", "http://[2001:db8::1]/x", "2001:db8::1", true},
		{"http://a.org/me@c.org", "http://a.org/me@c.org", "a.org", true}, {"http://a.org.:8080/", "http://a.org.:8080/", "a.org", true},
		{"a b", "", "", false}, {"me@", "", "", false}, {"@c.org", "", "", false}, {"write to me@c.org", "", "", false}, {"a.org/b", "", "", false},
		{"ftp://a/b", "", "", false}, {"http:///b", "", "", false}, {"http://a b/", "", "", false}, {strings.Repeat("a", 254), "", "", false},
		{strings.Repeat("a", 65) + "@c.org", "", "", false}, {"http://a.org/" + strings.Repeat(" ", 30_000) + "b", "", "", false},
	} {
		e, ok := entryOf(tt.line)
		if ok != tt.ok || ok && (e != entry{tt.whole, tt.host}) {
			t.Errorf("entryOf(%.80q) = %+v, %v; want %q, %q, %v", tt.line, e, ok, tt.whole, tt.host, tt.ok)
		}
	}
	e, _ := entryOf("me@a.example.org")
	if got := strings.Join(slices.Collect(e.names()), " "); got != "me@a.example.org a.example.org example.org" {
		t.Errorf("the names of an address: %s", got)
	}
	for host, want := range map[string]string{
		"a.b.example.org": "a.b.example.org b.example.org example.org", "example.org": "example.org", "localhost": "localhost",
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "a..b": "a..b .b", "...": "... .. .",
	} {
		if got := strings.Join(slices.Collect(withParents(host)), " "); got != want {
			t.Errorf("withParents(%q) = %q, want %q", host, got, want)
		}
	}
}

// A load that fails leaves no filter that knows less than the store.
func TestLoad_NoOldFilter(t *testing.T) {
	c := loaded(t, []string{"old.example"})
	c.lists = []string{write(t, []string{"new.example"}), write(t, []string{"no host"})}
	if err := run(t.Context(), c, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "there is no filter; run load again") {
		t.Errorf("load of what is no list: %v", err)
	}
	c.job = "judge"
	if err := run(t.Context(), c, strings.NewReader("new.example"), io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("judge after it: %v", err)
	}
	c.job, c.lists = "load", c.lists[:1]
	if err := run(t.Context(), c, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	c.job = "judge"
	var out bytes.Buffer
	if err := run(t.Context(), c, strings.NewReader("new.example\nold.example\nno host"), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "new.example: listed as new.example\nold.example: listed as old.example\nno host: unclear\n3 lines, 2 of them listed") {
		t.Errorf("%s", out.String())
	}
}

// An interrupt ends the wait for input, and the summary of what was read is printed.
func TestJudge_Interrupt(t *testing.T) {
	c := loaded(t, []string{"bad.example"})
	c.job = "judge"
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	defer time.AfterFunc(time.Minute, func() {
		t.Error("it waits for the next line")
		w.Close()
	}).Stop()
	go func() {
		_, _ = io.WriteString(w, "bad.example\n") // read at once
		cancel()
	}()
	var out bytes.Buffer
	if err := run(ctx, c, r, &out); err != nil || !strings.Contains(out.String(), "saved") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"load", "-db", "d", "-filter", "f", "a", "b"}, io.Discard)
	if err != nil || c.job != "load" || c.db != "d" || c.filter != "f" || len(c.lists) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, args := range [][]string{
		{}, {"nonsense"}, {"load"}, {"load", "-db", "d", "-filter", "f"}, {"load", "-db", "d", "-filter", "f", "-bits", "99", "a"}, {"judge", "-db", "d"},
		{"judge", "-db", "d", "-filter", "f", "more"}, {"traffic", "-db", "d", "-filter", "f"}, {"traffic", "-db", "d", "-filter", "f", "-top", "t", "-n", "0"}, {"judge", "-nonsense"},
	} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, err := parseFlags([]string{"judge", "-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
