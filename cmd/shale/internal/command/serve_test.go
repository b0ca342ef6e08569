package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// served runs serve until the test ends, and returns its address.
func served(t *testing.T, dir string, words ...string) (address string, stop func() (Status, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	s := &Session{Dir: dir, Printer: output.Printer{Out: bufio.NewWriter(w)}, Notes: &LockedWriter{W: &bytes.Buffer{}}}
	var list []Word
	for _, text := range append([]string{"--addr", "localhost:0"}, words...) {
		list = append(list, Word{Text: text})
	}
	c := serveCommand()
	list, err := c.parse(list)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		st  Status
		err error
	}
	ended := make(chan result, 1)
	go func() {
		st, err := c.run(ctx, s, list)
		w.CloseWithError(fmt.Errorf("serve ended: %w", context.Cause(ctx)))
		ended <- result{st, err}
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%v, %+v", err, <-ended)
	}
	stop = func() (Status, error) {
		cancel()
		x := <-ended
		return x.st, x.err
	}
	t.Cleanup(cancel)
	address = regexp.MustCompile(`http://\S+/`).FindString(line)
	if address == "" {
		t.Fatalf("no address in %q", line)
	}
	return address, stop
}

func fetch(t *testing.T, address, host string) (text string, code int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), response.StatusCode
}

// openPages opens a store read-only and returns its pages.
func openPages(t *testing.T, dir string, every time.Duration) http.Handler {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true, Exist: shale.MustExist, OnEvent: func(shale.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return servedPages(db, dir, every, false)
}

// The page has the name of the store's folder, however the store was named.
func TestServe_Title(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hosts.db")
	db, err := shale.Open(dir, nil)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{dir, ".", "../hosts.db/"} {
		w := httptest.NewRecorder()
		openPages(t, name, 0).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/overview", nil))
		if !strings.Contains(w.Body.String(), `"title":"hosts.db"`) {
			t.Errorf("the title of %s: %s", name, w.Body)
		}
	}
}

// Next to a program that writes, the page shows what was written until the request, or at most some time before it.
func TestServe_BesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now, later := openPages(t, dir, 0), openPages(t, dir, time.Hour)
	seen := func(pages http.Handler, key string) bool {
		text := asked(pages, "/api/explain?key="+key)
		if strings.Contains(text, "the value") {
			t.Errorf("values are shown: %s", text)
		}
		return strings.Contains(text, `"found":true`)
	}
	if seen(now, "k0") || seen(later, "k0") {
		t.Error("an absent key is seen")
	}
	for i := range 5 {
		key := fmt.Sprintf("k%d", i)
		if err := db.Put([]byte(key), []byte("the value")); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if !seen(now, key) {
			t.Errorf("%s is not seen", key)
		}
		if seen(later, key) {
			t.Errorf("%s is seen an hour early", key)
		}
	}
	if text := asked(now, "/api/overview"); !strings.Contains(text, "the program that has the store open") {
		t.Errorf("the page does not say so: %s", text)
	}
}

func asked(h http.Handler, target string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w.Body.String()
}

func TestServe_Values(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "put", "k", "the value"); st != Found {
		t.Fatal(notes)
	}
	address, _ := served(t, dir, "--values")
	if text, _ := fetch(t, address+"api/explain?key=k", ""); !strings.Contains(text, "the value") {
		t.Errorf("the value is not shown: %s", text)
	}
}

// A web site whose name resolves to this machine gets nothing. With --public, the server answers
// under any name.
func TestServe_OwnNamesOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "put", "k", "v"); st != Found {
		t.Fatal(notes)
	}
	own, _ := served(t, dir)
	public, _ := served(t, dir, "--public")
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "localhost:6070": 200, "127.0.0.1:1": 200, "[::1]:6070": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:6070": 403, "localhost.evil.example": 403, "192.0.2.1": 403,
	} {
		if _, code := fetch(t, own, host); code != want {
			t.Errorf("asked as %q: %d, want %d", host, code, want)
		}
		if _, code := fetch(t, public, host); code != 200 {
			t.Errorf("public, asked as %q: %d", host, code)
		}
	}
}

// If the store can't be read any more, or the folder has another one, the page shows the last state and the
// reason.
func TestServe_StoreThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "put", "k", "v"); st != Found {
		t.Fatal(notes)
	}
	pages := openPages(t, dir, 0)
	if err := os.Rename(dir, dir+" before"); err != nil {
		t.Fatal(err)
	}
	if text := asked(pages, "/api/overview"); !strings.Contains(text, "could not be read") || !strings.Contains(text, `"entries":1`) {
		t.Errorf("the page says %s", text)
	}
	if _, notes, st := call("", "-C", dir, "put", "other", "v"); st != Found {
		t.Fatal(notes)
	}
	if text := asked(pages, "/api/overview"); !strings.Contains(text, "another store") || !strings.Contains(text, `"entries":1`) {
		t.Errorf("the page says %s", text)
	}
}
