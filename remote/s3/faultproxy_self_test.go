package s3_test

import (
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A keeper is a server that keeps what it gets under the path, and what it has seen.
type keeper struct {
	mu   sync.Mutex
	kept map[string]string
	seen []string // method and body of each request; + after a body that ended early
	host string
}

func (s *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = r.Host
	if err != nil {
		s.seen = append(s.seen, r.Method+" cut")
		return
	}
	s.seen = append(s.seen, fmt.Sprintf("%s %s", r.Method, body))
	switch r.Method {
	case http.MethodPut:
		s.kept[r.URL.EscapedPath()] = string(body)
	case http.MethodDelete:
		delete(s.kept, r.URL.EscapedPath())
	default:
		_, _ = io.WriteString(w, s.kept[r.URL.EscapedPath()])
	}
}

func (s *keeper) has(path string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, there := s.kept[path]
	return text, there
}

const oldBytes = "the bytes of the old object"

// startProxy returns a proxy that makes one fault with every request, and the server behind it.
func startProxy(t *testing.T, fault proxyFault) (*faultProxy, *keeper) {
	t.Helper()
	s := &keeper{kept: map[string]string{"/b/old": oldBytes}}
	behind := httptest.NewServer(s)
	t.Cleanup(behind.Close)
	p := newProxy(t, behind.Listener.Addr().String(), func(proxyRequest) proxyFault { return fault })
	return p, s
}

// ask makes a request. It returns the status, or 0 if there was no answer, and the body.
func ask(t *testing.T, p *faultProxy, method, path, body string) (status int, got string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "signed.example.org"
	if method == http.MethodPut {
		r.Header.Set("If-None-Match", "*")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() // only read
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

// TestProxy_Changes makes each fault with a PUT and a DELETE: what the client is told, and what the server has
// then, and after Replay.
func TestProxy_Changes(t *testing.T) {
	for _, c := range []struct {
		fault        proxyFault
		put, delete  int  // the status; 0: no answer
		now, deleted bool // it has happened
		late         int  // what Replay sends
		then         bool // both have happened after that
	}{
		{None, 200, 200, true, true, 0, true},
		{DropBefore, 0, 0, false, false, 0, false},
		{DropAfter, 0, 0, true, true, 0, true},
		{Late, 0, 0, false, false, 2, true},
		{Duplicate, 200, 200, true, true, 2, true},
		{Delay, 200, 200, true, true, 0, true},
		{Conflict, 409, 200, false, true, 0, false},
		{Busy, 503, 503, false, false, 0, false},
		{CutBody, 0, 200, false, true, 0, false},
		{CutAnswer, 200, 200, true, true, 0, true},
		{FlipAnswer, 200, 200, true, true, 0, true},
	} {
		p, s := startProxy(t, c.fault)
		put, _, _ := ask(t, p, http.MethodPut, "/b/a%2Fnew", "new bytes")
		del, _, _ := ask(t, p, http.MethodDelete, "/b/old", "")
		_, now := s.has("/b/a%2Fnew")
		_, kept := s.has("/b/old")
		if put != c.put || del != c.delete || now != c.now || kept == c.deleted {
			t.Errorf("%v: PUT %d, DELETE %d, made %v, deleted %v; want %d, %d, %v, %v", c.fault, put, del, now, !kept, c.put, c.delete, c.now, c.deleted)
		}
		n := p.Replay(t.Context())
		_, now = s.has("/b/a%2Fnew")
		if n != c.late || now != c.then {
			t.Errorf("%v: Replay = %d, made %v; want %d, %v", c.fault, n, now, c.late, c.then)
		}
		if p.Count(http.MethodPut) != 1 || p.Count(http.MethodDelete) != 1 || p.Replay(t.Context()) != 0 {
			t.Errorf("%v: %d PUTs, %d DELETEs; or Replay sends something twice", c.fault, p.Count(http.MethodPut), p.Count(http.MethodDelete))
		}
		if now && s.host != "signed.example.org" {
			t.Errorf("%v: the server is asked as %q, which a signature would not cover", c.fault, s.host)
		}
	}
}

// TestProxy_Bodies damages bodies on the way, in both directions.
func TestProxy_Bodies(t *testing.T) {
	p, s := startProxy(t, FlipBody)
	if status, _, err := ask(t, p, http.MethodPut, "/b/new", "new bytes"); status != 200 || err != nil {
		t.Errorf("PUT: %d, %v", status, err)
	}
	if got, _ := s.has("/b/new"); difference(got, "new bytes") != 1 {
		t.Errorf("the server has %q, want one bit of another", got)
	}
	p, s = startProxy(t, CutBody)
	_, _, _ = ask(t, p, http.MethodPut, "/b/new", "new bytes")
	if _, there := s.has("/b/new"); there || p.Happened(CutBody) != 1 {
		t.Error("the server has taken a cut body")
	}
	p, _ = startProxy(t, FlipAnswer)
	if status, got, err := ask(t, p, http.MethodGet, "/b/old", ""); status != 200 || err != nil || difference(got, oldBytes) != 1 {
		t.Errorf("GET: %d, %q, %v; want one bit of another", status, got, err)
	}
	p, _ = startProxy(t, CutAnswer)
	if status, got, err := ask(t, p, http.MethodGet, "/b/old", ""); status != 200 || err == nil || len(got) >= len(oldBytes) || !strings.HasPrefix(oldBytes, got) {
		t.Errorf("GET: %d, %q, %v; want a part of it and an error", status, got, err)
	}
	for _, fault := range []proxyFault{FlipAnswer, CutAnswer} {
		p, _ = startProxy(t, fault)
		if status, _, err := ask(t, p, http.MethodGet, "/b?list-type=2", ""); status != 200 || err != nil {
			t.Errorf("%v of a list: %d, %v", fault, status, err)
		}
	}
}

// difference returns how many bits of two texts of one length differ, or -1.
func difference(a, b string) (n int) {
	if len(a) != len(b) {
		return -1
	}
	for i := range len(a) {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}
