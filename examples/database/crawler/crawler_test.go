package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// No way but the filter loses a URL: run compares every answer. The filter loses a few.
func TestRun(t *testing.T) {
	lists := map[string][][]byte{"made up": madeUp(100_000), "twice": bytes.Fields([]byte("http://a/ http://b/ http://a/ http://c/ http://b/"))}
	if testing.Short() || testenv.Race { // which slows SQLite to a tenth
		lists["made up"] = madeUp(10_000)
	}
	if _, ok := testenv.FindShared(t, "data/malicious-urls.txt"); ok {
		lists["list"] = bytes.Fields(testenv.ReadShared(t, "data/malicious-urls.txt"))
	}
	for name, urls := range lists {
		var out strings.Builder
		if err := run(urls, t.TempDir(), &out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %s", name, out.String())
		_, text, _ := strings.Cut(out.String(), "filter alone")
		_, text, _ = strings.Cut(text, " MB   ")
		var lost int
		if _, err := fmt.Sscan(text, &lost); err != nil || lost > len(urls)/80+4 {
			t.Errorf("%s: the filter alone lost %d of %d URLs, %v", name, lost, len(urls), err)
		}
	}
}

// Wrong answers are noticed.
func TestCompare(t *testing.T) {
	right := []bool{false, true, false}
	if lost, err := compare([]bool{true, true, true}, right, true); lost != 2 || err != nil {
		t.Errorf("%d lost, %v; want 2", lost, err)
	}
	if _, err := compare([]bool{true, true, true}, right, false); err == nil {
		t.Error("no error of a way that may not lose a URL")
	}
	if _, err := compare([]bool{false, false, false}, right, true); err == nil {
		t.Error("no error of a way that forgets")
	}
}
