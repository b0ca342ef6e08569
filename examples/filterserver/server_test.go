package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// export writes a bundle of a store with these keys to file, by a rename.
func export(t testing.TB, file string, keys [][]byte) {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for half := range 2 {
		var b shale.Batch
		for i, key := range keys {
			if i%2 != half {
				continue
			}
			if err := b.Put(key, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(db.Write(t.Context(), &b), db.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), shale.Range{}); err != nil { // merged: filters of the usual width
		t.Fatal(err)
	}
	var w bytes.Buffer
	if _, err := db.Inspect().ExportFilters(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	put(t, file, w.Bytes())
}

func put(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file+".tmp", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
}

// newServer serves a bundle of keys. The file may be replaced.
func newServer(t testing.TB, keys ...[]byte) (s *server, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "filters")
	export(t, file, keys)
	s = &server{file: file, logf: t.Logf}
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.handler())
	t.Cleanup(h.Close)
	return s, h.URL
}

func request(t testing.TB, method, url, body string) (status int, text string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b), answer.Header
}

func TestMay(t *testing.T) {
	s, base := newServer(t, []byte("apple"), []byte("a b&c=d"), []byte("\x00\xff"), []byte(""), []byte("melon"))
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/may?key=apple", "", 200, maybe},
		{"GET", "/may?key=" + url.QueryEscape("a b&c=d"), "", 200, maybe},
		{"GET", "/may?key=%00%FF", "", 200, maybe},
		{"GET", "/may?key=", "", 200, maybe},
		{"GET", "/may?key=banana", "", 200, no},
		{"HEAD", "/may?key=banana", "", 200, ""},
		{"GET", "/may?key=%zz", "", 400, ""},
		{"GET", "/may?key=apple;key=pear", "", 400, ""},
		{"GET", "/may?key=apple&key=pear", "", 400, ""},
		{"GET", "/may", "", 400, ""},
		{"POST", "/may", "apple\nbanana\r\nmelon", 200, maybe + no + maybe},
		{"POST", "/may", "apple\n\nbanana\n", 200, maybe + maybe + no},
		{"POST", "/may", "", 200, ""},
		{"POST", "/may", strings.Repeat("x", maxBody), 200, no},
		{"POST", "/may", strings.Repeat("x", maxBody+1), 413, ""},
		{"PUT", "/may?key=apple", "", 405, ""},
		{"DELETE", "/may?key=apple", "", 405, ""},
		{"POST", "/info", "", 405, ""},
		{"GET", "/", "", 404, ""},
		{"GET", "/may/apple", "", 404, ""},
	} {
		status, text, header := request(t, tt.method, base+tt.path, tt.body)
		if status != tt.status || status == 200 && text != tt.want {
			t.Errorf("%s %s with %.20q: %d, %q; want %d, %q", tt.method, tt.path, tt.body, status, text, tt.status, tt.want)
		}
		if status == 405 && header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", tt.method, tt.path)
		}
	}
	if asked, absent := s.asked.Load(), s.absent.Load(); asked != 13 || absent != 5 {
		t.Errorf("%d asked, %d absent; want 13 and 5", asked, absent)
	}
	if status, text, _ := request(t, "GET", base+"/info", ""); status != 200 || !strings.Contains(text, "5 keys in 1 tables") || !strings.Contains(text, "(38.5 %)") {
		t.Errorf("info: %d, %s", status, text)
	}
}

// Real hosts: all hosts of a blocklist are answered with maybe, and nearly all others with
// absent. These are the questions that the store is spared.
func TestMay_RealHosts(t *testing.T) {
	lists := make(map[string][][]byte)
	for _, name := range []string{"malicious-hosts", "benign-hosts"} {
		b := testenv.ReadShared(t, "data/"+name+".txt")
		i := 0
		for line := range bytes.Lines(b) {
			if i++; i%40 == 0 {
				lists[name] = append(lists[name], bytes.TrimSuffix(line, []byte("\n")))
			}
		}
	}
	s, base := newServer(t, lists["malicious-hosts"]...)
	for name, list := range lists {
		s.asked.Store(0)
		s.absent.Store(0)
		status, text, _ := request(t, "POST", base+"/may", string(bytes.Join(list, []byte("\n"))))
		absent := strings.Count(text, no)
		if status != 200 || strings.Count(text, "\n") != len(list) || s.absent.Load() != int64(absent) {
			t.Fatalf("%s: status %d, %d answers for %d keys", name, status, strings.Count(text, "\n"), len(list))
		}
		t.Logf("%s: %s", name, s.saved())
		if share := float64(absent) / float64(len(list)); name == "malicious-hosts" && absent > 0 || name == "benign-hosts" && share < 0.98 {
			t.Errorf("%s: %d of %d are answered absent", name, absent, len(list))
		}
	}
}

// A new file is served. A file that cannot be used is not served, and a file that has
// not changed is not read again.
func TestReload(t *testing.T) {
	s, base := newServer(t, []byte("old"))
	ask := func(key string) string {
		_, text, _ := request(t, "GET", base+"/may?key="+key, "")
		return text
	}
	if ask("old") != maybe || ask("new") != no || s.changed() {
		t.Fatalf("old %q, new %q, changed %v", ask("old"), ask("new"), s.changed())
	}
	export(t, s.file, [][]byte{[]byte("new"), []byte("other")})
	if !s.changed() {
		t.Fatal("another file is not seen")
	}
	if err := s.load(); err != nil || ask("old") != no || ask("new") != maybe || s.changed() {
		t.Fatalf("after load: %v, old %q, new %q, changed %v", err, ask("old"), ask("new"), s.changed())
	}
	put(t, s.file, []byte("no bundle"))
	if !s.changed() || s.load() == nil || ask("new") != maybe || s.changed() {
		t.Errorf("after a file that is no bundle: new %q, changed %v", ask("new"), s.changed())
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if s.changed() || s.load() == nil || ask("new") != maybe {
		t.Errorf("without a file: changed %v, new %q", s.changed(), ask("new"))
	}
}

// The whole program: it serves, reloads when it sees another file, and ends.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "filters")
	export(t, file, [][]byte{[]byte("first")})
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	loaded, ended := make(chan string, 100), make(chan error, 1)
	logf := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.HasPrefix(text, "serving") {
			loaded <- text
		}
	}
	go func() { ended <- run(ctx, file, time.Millisecond, listener, logf) }()
	<-loaded
	export(t, file, [][]byte{[]byte("second"), []byte("of another length")})
	<-loaded
	if _, text, _ := request(t, "GET", "http://"+listener.Addr().String()+"/may?key=second", ""); text != maybe {
		t.Errorf("%q after the reload", text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run = %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRun_Fails(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), filepath.Join(t.TempDir(), "none"), time.Hour, listener, t.Logf); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("run without a file = %v", err)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is left open: %v", err)
	}
}
