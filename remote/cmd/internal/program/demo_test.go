package program

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/remote/s3/s3test"
)

// The demonstration makes a store that is larger than its room, in a folder and on a server, and its counts are what is promised:
// new URLs ask the bucket for false positives only, and a seen one takes at most one GET.
func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	checkDemo(t, must(t, "demo", "--urls", "40000", "--asked", "20000", "--local", "1MiB"))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

func TestDemo_OnServer(t *testing.T) {
	c := s3test.Start(t).Make(t, "demo")
	t.Setenv("AWS_ACCESS_KEY_ID", c.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", c.SecretKey)
	checkDemo(t, must(t, "demo", c.String(), "--urls", "40000", "--asked", "20000", "--local", "1MiB"))
	if _, notes, status := run(t, "demo", c.String()); status != failed || !strings.Contains(notes, "is not empty") {
		t.Errorf("a second time: status %d, %s", status, notes)
	}
}

// checkDemo checks what the demonstration prints.
func checkDemo(t *testing.T, out string) {
	t.Helper()
	t.Log(out)
	for _, want := range []string{"40,000 URLs, ", "LocalBytes is 1.0 MiB", "L6 ", "░", "20,000 new URLs: none found", "200 seen URLs: all found", " PUT, "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for text, most := range map[string]float64{`\((\d\.\d+) a question\); `: 0.03, `\((\d\.\d+) a question\) of`: 1} {
		m := regexp.MustCompile(text).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("nothing like %s", text)
		}
		if n, err := strconv.ParseFloat(m[1], 64); err != nil || n > most {
			t.Errorf("%s, want at most %v", m[0], most)
		}
	}
}

// Options that can't be meant are refused before anything is made.
func TestDemo_Options(t *testing.T) {
	for _, args := range [][]string{{"--urls", "10"}, {"--urls", "many"}, {"--local", "1"}, {"--local", "large"}} {
		if _, notes, status := run(t, append([]string{"demo"}, args...)...); status != failed || !strings.Contains(notes, args[0]) {
			t.Errorf("%v: status %d, %s", args, status, notes)
		}
	}
}

// Different numbers make different URLs, and URLs next to each other by their numbers are not on one host.
func TestURLs(t *testing.T) {
	seen, together := make(map[string]bool), 0
	last := ""
	for n := range uint64(100_000) {
		url := string(appendURL(nil, n))
		if seen[url] {
			t.Fatalf("%s comes twice", url)
		}
		seen[url] = true
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
		if host == last {
			together++
		}
		last = host
	}
	if together > 100 {
		t.Errorf("%d of 100,000 are on the host of the one before", together)
	}
}
