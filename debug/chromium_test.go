package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/internal/testenv"
)

// A browser is a Chromium without a window.
type browser struct{ program string }

func findBrowser(t *testing.T) browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds to start: not with -short")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return browser{program}
		}
	}
	t.Skip("there is no Chromium here: the page is not tried in a browser")
	return browser{}
}

// consoleLine is how Chromium logs what a page writes to its console, and what
// it has to say about the page itself, such as what the policy forbids.
var consoleLine = regexp.MustCompile(`(?m)^.*CONSOLE.*$`)

// run starts the browser and returns what it prints, and the page's console.
func (b browser) run(t *testing.T, args ...string) (out string, console []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	flags := []string{
		"--headless=new", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=4000", "--user-data-dir=" + t.TempDir(),
	}
	if os.Getuid() == 0 {
		flags = append(flags, "--no-sandbox")
	}
	c := exec.CommandContext(ctx, b.program, append(flags, args...)...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &stdout, &stderr, 10*time.Second
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, stderr.String())
	}
	return stdout.String(), consoleLine.FindAllString(stderr.String(), -1)
}

// busy serves the pages of a store that was looked at for some seconds, and has
// had stalls and failures.
func busy(t *testing.T, db *shale.DB, opts ...Option) *httptest.Server {
	t.Helper()
	h := Handler(db, opts...).(*handler)
	now := time.Now()
	for i := range 60 {
		for j := range 50 + 5*(i%7) {
			if _, err := db.Has(fmt.Appendf(nil, "key%04d%s", j*17%2000, []string{"", "x"}[j%2])); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Put(fmt.Appendf(nil, "new%d", i), []byte(secret)); err != nil {
			t.Fatal(err)
		}
		h.rates.look(now.Add(time.Duration(i-61)*time.Second), db.Metrics, 0)
	}
	err := db.Update(t.Context(), func(tx *shale.Txn) error { return tx.PutTTL([]byte("lasts"), nil, 30*24*time.Hour) })
	if err := errors.Join(err, db.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// section returns the text of the element with an id, up to the next section.
func section(dom, id string) string {
	_, rest, _ := strings.Cut(dom, `id="`+id+`"`)
	part, _, _ := strings.Cut(rest, "</section>")
	return part
}

// The page fills its panels and explains lookups, and does not take a key for a
// part of itself.
func TestPage_InABrowser(t *testing.T) {
	b := findBrowser(t)
	db := openStore(t)
	s := busy(t, db, Title("hosts <b>bold</b>.db"))
	cases := []struct{ key, want string }{
		{hostile[0], "&lt;script&gt;document.title='owned'&lt;/script&gt;</code>: found, "},
		{"lasts", "found, expires at "},
		{"key0001x", "not found"},
		{"key0003", "found, 1 bytes (values are hidden)"},
		{hostile[1], "&lt;img src=x onerror=alert(1)&gt;"},
		{hostile[4], `"\x00\x01\x1b[31m"</code>: found`},
		{hostile[5], `"\xff\xfe\x80"</code>: found`},
	}
	if testenv.Long(t) == 0 {
		cases = cases[:1] // each takes a second
	}
	for _, c := range cases {
		dom, console := b.run(t, "--dump-dom", s.URL+"/debug/shale/#explain="+url.QueryEscape(quoting.Quote(c.key)))
		if len(console) > 0 {
			t.Errorf("explaining %q, the console says:\n%s", c.key, strings.Join(console, "\n"))
		}
		if x := section(dom, "explanation"); !strings.Contains(x, c.want) {
			t.Errorf("explanation of %q: %.600s\nwant %s", c.key, x, c.want)
		}
		for _, bad := range []string{"<script>doc", "<img", "<b>bold", "<title>owned", secret, "top secret"} {
			if strings.Contains(dom, bad) {
				t.Errorf("explaining %q, the page has %q in it", c.key, bad)
			}
		}
		for id, want := range map[string]string{
			"tiles": "reads saved", "charts": "<canvas", "tree": "data-table=", "levels": "<td>L6", "worst": "<td>#0", "cache": "found in the cache",
			"memory": "block cache", "transactions": "tries a commit", "expiry": "1 (0.0",
			"gantt": "<rect", "compactions": "compaction", "stalls": "Writers waited", "trouble": "None",
		} {
			if !strings.Contains(section(dom, id), want) {
				t.Errorf("panel %s: %.300s; want %s", id, section(dom, id), want)
			}
		}
	}
}

// The page of a store that is closed, and of a read-only copy next to the program
// that writes.
func TestPage_ClosedAndCopy(t *testing.T) {
	b := findBrowser(t)
	db := openStore(t)
	s := httptest.NewServer(Handler(db, AsOf(time.Now(), "Opened anew now and then.")))
	defer s.Close()
	dom, console := b.run(t, "--dump-dom", s.URL+"/")
	if len(console) > 0 || !strings.Contains(section(dom, "note"), "Opened anew now and then.") || !strings.Contains(dom, `class="copy"`) ||
		strings.Contains(section(dom, "charts"), "<canvas") || !strings.Contains(section(dom, "tree"), "data-table=") {
		t.Errorf("a copy: %v\n%.2000s", console, section(dom, "note"))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if dom, _ := b.run(t, "--dump-dom", s.URL+"/"); !strings.Contains(section(dom, "problem"), "closed") {
		t.Errorf("a closed store: %.1000s", section(dom, "problem"))
	}
}
