package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// do does a job with lists of these lines, and returns what it prints.
func do(t testing.TB, c config, job string, lines ...string) string {
	t.Helper()
	c.job, c.lists = job, []string{write(t, lines)}
	var out bytes.Buffer
	if err := run(t.Context(), c, nil, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// verdicts judges lines, and returns the verdict of each.
func verdicts(t testing.TB, c config, lines ...string) []string {
	t.Helper()
	c.job = "judge"
	var out bytes.Buffer
	if err := run(t.Context(), c, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(out.String(), "\n")[:len(lines)]
	for i, line := range lines {
		got[i] = strings.TrimPrefix(got[i], line+": ")
	}
	return got
}

// Addresses and URLs are listed without their hosts, and with them.
func TestJudge_AddressesAndURLs(t *testing.T) {
	c := loaded(t, []string{"bad.example", "spam@mail.example", "http://www.Example:80/virus#now", "192.0.2.1"})
	lines := []string{
		"Spam <SPAM@mail.example>", "ham@mail.example", "mail.example", "spam@sub.mail.example",
		"any@www.bad.example", "https://bad.example:8443/x", "http://www.example/virus", "http://www.example/", "http://WWW.example/%76irus",
		"http://good.example@192.0.2.1/", "https://www.example/virus", "ftp://bad.example/",
	}
	want := []string{
		"listed as spam@mail.example", "ok", "ok", "ok",
		"listed as bad.example", "listed as bad.example", "listed as http://www.example/virus", "ok", "listed as http://www.example/virus",
		"listed as 192.0.2.1", "ok", "unclear",
	}
	for i, got := range verdicts(t, c, lines...) {
		if got != want[i] {
			t.Errorf("%s: %s, want %s", lines[i], got, want[i])
		}
	}
}

// After any loads and removals, the verdicts are those of a set.
func TestRemove(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	c := loaded(t, []string{"first.example"})
	c.shrinks = true
	set := make(map[string]bool)
	draw := func() (lines []string) {
		for range rng.IntN(400) {
			n := rng.IntN(500)
			lines = append(lines, []string{fmt.Sprintf("h%d.example", n), fmt.Sprintf("user%d@mail.example", n), fmt.Sprintf("http://www.example/%d", n)}[n%3])
		}
		return lines // some of them more than once
	}
	do(t, c, "load", "first.example")
	for range 12 {
		lines := draw()
		if rng.IntN(3) == 0 {
			do(t, c, "load", lines...)
			for _, line := range lines {
				set[line] = true
			}
		} else {
			before := len(set)
			for _, line := range lines {
				delete(set, line)
			}
			if got, want := do(t, c, "remove", lines...), fmt.Sprintf("%d names were listed and are not any more", before-len(set)); !strings.Contains(got, want) {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		asked := append(slices.Collect(maps.Keys(set)), draw()...)
		for i, got := range verdicts(t, c, asked...) {
			if want := map[bool]string{true: "listed as " + asked[i], false: "ok"}[set[asked[i]]]; got != want {
				t.Fatalf("%s: %s, want %s", asked[i], got, want)
			}
		}
		f, err := openCounting(c.filter)
		if err != nil || f.Count() != uint64(len(set)+1) {
			t.Fatalf("the filter has %d names, %v; want %d", f.Count(), err, len(set)+1)
		}
	}
}

// A removal that ends after the store has changed, and before the filter file has, makes no
// wrong answer, and the same removal afterwards does not take names from the filter twice.
func TestRemove_Crash(t *testing.T) {
	var bad []string
	for i := range 2000 {
		bad = append(bad, fmt.Sprintf("h%d.example", i))
	}
	c := loaded(t, bad)
	c.shrinks = true
	do(t, c, "load", bad...)
	old, err := os.ReadFile(c.filter)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for i, got := range verdicts(t, c, bad...) {
			if want := map[bool]string{true: "ok", false: "listed as " + bad[i]}[i < 1000]; got != want {
				t.Fatalf("%s: %s, want %s", bad[i], got, want)
			}
		}
	}
	do(t, c, "remove", bad[:1000]...)
	check()
	if err := os.WriteFile(c.filter, old, 0o600); err != nil { // as before the crash
		t.Fatal(err)
	}
	check()
	if got := do(t, c, "remove", bad[:1000]...); !strings.Contains(got, "0 names were listed and are not any more, 1000 were not listed") {
		t.Errorf("%s", got)
	}
	check()
}

// A removal that fails in the store leaves all names in the filter.
func TestRemove_StoreFails(t *testing.T) {
	c := loaded(t, []string{"a.example"})
	c.shrinks = true
	do(t, c, "load", "a.example", "b.example")
	c.job, c.lists = "remove", []string{write(t, []string{"a.example", "b.example"})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, c, nil, io.Discard); err == nil {
		t.Error("an interrupted removal succeeds")
	}
	if got := verdicts(t, c, "a.example", "b.example"); !slices.Equal(got, []string{"listed as a.example", "listed as b.example"}) {
		t.Errorf("%q", got)
	}
}

// Without -shrinks, and with a bad list, nothing is removed.
func TestRemove_Refused(t *testing.T) {
	c := loaded(t, []string{"a.example"})
	c.job, c.lists = "remove", []string{write(t, []string{"a.example"})}
	if err := run(t.Context(), c, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "-shrinks") {
		t.Errorf("remove from a filter of bits: %v", err)
	}
	c.shrinks = true
	do(t, c, "load", "a.example")
	c.job, c.lists = "remove", []string{write(t, []string{"a.example", "no host"})}
	if err := run(t.Context(), c, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "nothing was removed") {
		t.Errorf("remove of what is no list: %v", err)
	}
	if got := verdicts(t, c, "a.example"); got[0] != "listed as a.example" {
		t.Errorf("%q", got)
	}
	do(t, c, "remove", "a.example") // the list may become empty
	do(t, c, "load", "# nothing")
}
