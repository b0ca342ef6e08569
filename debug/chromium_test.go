package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
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

// busyHandler returns the pages of a store that was looked at for some seconds.
func busyHandler(t *testing.T, db *shale.DB, opts ...Option) http.Handler {
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
	return h
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
	s := httptest.NewServer(busyHandler(t, db, Title("hosts <b>bold</b>.db")))
	defer s.Close()
	cases := []struct{ key, want string }{
		{hostile[0], "&lt;script&gt;document.title='owned'&lt;/script&gt;</code>: found, "},
		{"lasts", "found, expires at "},
		{"key0001x", "not found"},
		{"key0003", "found, 1 byte (values are hidden)"},
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
			"memory": "block cache", "transactions": "tries for a commit", "expiry": "1 (0.0",
			"gantt": "<rect", "compactions": "compaction", "stalls": "No writer has", "trouble": "None",
		} {
			if !strings.Contains(section(dom, id), want) {
				t.Errorf("panel %s: %.300s; want %s", id, section(dom, id), want)
			}
		}
		if values := legendValue.FindAllStringSubmatch(section(dom, "charts"), -1); len(values) < 10 || slices.ContainsFunc(values, func(v []string) bool { return v[1] == "" }) {
			t.Errorf("values in the legends of charts: %q", values)
		}
	}
}

var legendValue = regexp.MustCompile(`class="u-value">([^<]*)<`)

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

// inFrames shows the page in frames that have different widths, and waits for it. It returns what the
// frames hold, and which parts of them reach beyond the right edge, where nobody could see them.
func (b browser) inFrames(t *testing.T, h http.Handler, widths ...int) (dom string, beyond []string) {
	t.Helper()
	var frames strings.Builder
	for _, w := range widths {
		fmt.Fprintf(&frames, `<iframe src="/shale/#explain=key0001x" width="%d" height="900"></iframe>`, w)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.Header().Set("Content-Security-Policy", strings.ReplaceAll(policy, "frame-ancestors 'none'", "frame-ancestors 'self'"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
		fmt.Fprintf(w, `<!DOCTYPE html><body>%s<p id="beyond"></p><pre id="dom"></pre><script>
setTimeout(() => {
	const beyond = [];
	for (const f of document.querySelectorAll("iframe")) {
		const width = f.contentWindow.innerWidth;
		document.getElementById("dom").textContent += f.contentDocument.body.innerHTML;
		for (const e of f.contentDocument.body.querySelectorAll("*")) {
			if (e.parentElement.closest(".wide") || e.closest("[hidden]") || e.getBoundingClientRect().right < width + 1) continue;
			beyond.push(f.width + ": " + (e.id || e.parentElement.id + " > " + e.localName));
		}
	}
	document.getElementById("beyond").textContent = beyond.join(", ");
}, 3500)</script>`, frames.String())
	}))
	defer s.Close()
	out, console := b.run(t, "--dump-dom", s.URL+"/")
	if len(console) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(console, "\n"))
	}
	_, out, _ = strings.Cut(out, `<p id="beyond">`)
	list, dom, found := strings.Cut(out, `</p><pre id="dom">`)
	if !found || !strings.Contains(dom, "footer") {
		t.Fatalf("the frames hold nothing: %.1000s", out)
	}
	if list != "" {
		beyond = strings.Split(list, ", ")
	}
	return html.UnescapeString(dom), beyond
}

// In narrow windows nothing is cut off: what is wide can be scrolled.
func TestPage_Narrow(t *testing.T) {
	b := findBrowser(t)
	h := busyHandler(t, openStore(t), Title(strings.Repeat("a-long-name", 10)))
	if _, beyond := b.inFrames(t, h, 320, 400, 1280); len(beyond) > 0 {
		t.Errorf("beyond the edge of the window: %v", beyond)
	}
}

// oneOfMany are words that would be wrong after a 1.
var oneOfMany = regexp.MustCompile(`\b(1 (?:tables|entries|blocks|bytes|runs|lookups|false positives|waits))\b`)

// Before the first flush the page says that there is nothing yet, and has no empty charts and tables.
// With one table of one entry, it speaks of one.
func TestPage_NewStore(t *testing.T) {
	b := findBrowser(t)
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), CompactionWorkers: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("key0001x"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	dom, _ := b.inFrames(t, Handler(db), 400)
	for id, want := range map[string]string{
		"charts": "Nothing so far: lookups a second, ", "tree": ">1 entry in memory</text>", "levels": "<tbody></tbody>",
		"filters": "No tables, and so no filters", "gantt": "None since", "stalls": "No writer has had to wait", "tiles": "<b>1</b><span>entry, ",
	} {
		if !strings.Contains(section(dom, id), want) {
			t.Errorf("panel %s before the first flush: %.300s; want %s", id, section(dom, id), want)
		}
	}
	if strings.Contains(dom, "<canvas") || strings.Contains(section(dom, "tree"), "legend") {
		t.Errorf("before the first flush there are charts, or a legend of no tables")
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	dom, _ = b.inFrames(t, Handler(db), 1280)
	for id, want := range map[string]string{
		"tiles": "<span>in 1 table</span>", "tree": ">1 table, ", "levels": "<td>L0", "explanation": "found, 1 byte (", "worst": "&lt;0.0001 %",
	} {
		if !strings.Contains(section(dom, id), want) {
			t.Errorf("panel %s of one entry: %.600s; want %s", id, section(dom, id), want)
		}
	}
	for _, want := range []string{"0 of 1 table in range", "1 block (", "Without filters: 1 block.", "less than 1 in a billion such lookups"} {
		if !strings.Contains(section(dom, "explanation"), want) {
			t.Errorf("the explanation does not say %q: %s", want, section(dom, "explanation"))
		}
	}
	if bad := oneOfMany.FindAllString(dom, -1); bad != nil {
		t.Errorf("the page says %q", bad)
	}
}
