// Package httpproxy is a proxy between a client of an S3 server and the server, which makes the faults of
// networks: it loses, delays, repeats and damages requests and answers. It is for tests only.
//
// It differs from buckettest.Faulty in where the faults happen. Faulty makes them between a program and a
// bucket; the proxy makes them below the bucket, so that the bucket's own code has to deal with them: with
// connections that end in the middle of an answer, with status codes, and with bodies that the checksums of
// the protocol have to catch.
//
// The proxy does not damage the answers to lists and to questions about an object: the protocol has no
// checksum for them, and on a real network that of TLS protects them.
package httpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/buckettest/internal/chance"
)

// A Request is one request that has arrived at a Proxy.
type Request struct {
	N      int64  // its number, from 1
	Method string // such as PUT
	Path   string // of the URL
	Absent bool   // it has the condition If-None-Match
}

// A Proxy passes requests to a server on this machine, with faults. Any number of clients may use it.
type Proxy struct {
	Wait time.Duration // how long a Delay takes; 0: 20 ms

	target    *url.URL
	transport *http.Transport
	front     *httptest.Server
	decide    func(Request) Fault

	mu     sync.Mutex // protects the following fields
	n      int64
	counts map[string]int64 // of requests, by method
	faults map[Fault]int64  // that fitted to their requests
	held   []*message       // the requests that Replay sends
	random chance.Numbers   // which bit, and how many bytes
}

// New starts a proxy to the server at target, such as "127.0.0.1:7070". It ends with the test. decide chooses
// the fault of each request; it is called under a lock, in the order of Request.N, and nil means no faults.
func New(t testing.TB, target string, decide func(Request) Fault) *Proxy {
	t.Helper()
	if decide == nil {
		decide = func(Request) Fault { return None }
	}
	p := &Proxy{
		target: &url.URL{Scheme: "http", Host: target}, transport: &http.Transport{MaxIdleConnsPerHost: 64}, decide: decide,
		counts: map[string]int64{}, faults: map[Fault]int64{},
	}
	p.front = httptest.NewServer(p)
	t.Cleanup(func() {
		p.front.Close()
		p.transport.CloseIdleConnections()
	})
	return p
}

// Addr returns the address of the proxy, such as "127.0.0.1:40001".
func (p *Proxy) Addr() string { return p.front.Listener.Addr().String() }

// Count returns the number of requests so far with a method, whatever has become of them.
func (p *Proxy) Count(method string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[method]
}

// Happened returns how often a fault has happened.
func (p *Proxy) Happened(f Fault) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[f]
}

// Replay sends everything that is late, and repeats everything that was duplicated, in the order of the
// requests. It returns how many there were. Each is sent once. The answers of the server are dropped, like
// those to packets that arrive after their sender is gone.
func (p *Proxy) Replay(ctx context.Context) int {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, m := range held {
		if answer, err := p.send(ctx, m, m.body); err == nil { // see above
			_ = answer.Body.Close()
		}
	}
	return len(held)
}

// A message is a whole request.
type message struct {
	method string
	url    *url.URL
	host   string // signatures cover it, so the server must see what the client has sent
	header http.Header
	body   []byte
}

// ServeHTTP passes one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	m := &message{r.Method, r.URL, r.Host, r.Header, body}
	fault, random := p.next(m)
	switch fault {
	case DropBefore:
		panic(http.ErrAbortHandler) // this ends the connection
	case Late:
		p.hold(m)
		panic(http.ErrAbortHandler)
	case Duplicate:
		p.hold(m)
	case Delay:
		p.sleep(r.Context())
	case Conflict:
		refuse(w, http.StatusConflict, "ConditionalRequestConflict")
		return
	case Busy:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	}
	answer, err := p.send(r.Context(), m, spoil(body, fault, CutBody, FlipBody, random))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close() // only read
	data, err := io.ReadAll(answer.Body)
	if err != nil || fault == DropAfter {
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	if !isObject(m, answer) {
		_, _ = w.Write(data) // if it fails, the client has gone
		return
	}
	rest := spoil(data, fault, CutAnswer, FlipAnswer, random)
	_, _ = w.Write(rest) // the same
	if len(rest) < len(data) {
		_ = http.NewResponseController(w).Flush() // what is cut off is the end only
		panic(http.ErrAbortHandler)
	}
}

// isObject reports whether an answer has the bytes of an object, which have a checksum somewhere.
func isObject(m *message, answer *http.Response) bool {
	return m.method == http.MethodGet && answer.StatusCode/100 == 2 && !m.url.Query().Has("list-type") && !m.url.Query().Has("location")
}

// next counts a request, and returns its fault and a random number.
func (p *Proxy) next(m *message) (Fault, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.counts[m.method]++
	absent := m.header.Get("If-None-Match") != ""
	fault := p.decide(Request{p.n, m.method, m.url.Path, absent})
	changes := m.method == http.MethodPut || m.method == http.MethodDelete
	switch {
	case !changes && (fault == Late || fault == Duplicate), fault == Conflict && !absent,
		len(m.body) == 0 && (fault == CutBody || fault == FlipBody), m.method != http.MethodGet && (fault == CutAnswer || fault == FlipAnswer):
		fault = None
	}
	p.faults[fault]++
	return fault, p.random.Next()
}

// hold keeps a request for Replay.
func (p *Proxy) hold(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, m)
}

// sleep waits as long as a Delay takes, or until ctx ends.
func (p *Proxy) sleep(ctx context.Context) {
	wait := p.Wait
	if wait == 0 {
		wait = 20 * time.Millisecond
	}
	_ = chance.Wait(ctx, wait) // a request that has ended fails where it is sent
}

// send sends a request to the server, with a body that may be another one than the client's. If that is
// shorter, the connection ends after it.
func (p *Proxy) send(ctx context.Context, m *message, body []byte) (*http.Response, error) {
	to := *m.url
	to.Scheme, to.Host = p.target.Scheme, p.target.Host
	r, err := http.NewRequestWithContext(ctx, m.method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.URL = &to // with the escapes of the client, which its signature covers
	r.Host, r.Header, r.ContentLength, r.GetBody = m.host, m.header.Clone(), int64(len(m.body)), nil
	if len(m.body) == 0 {
		r.Body = http.NoBody
	}
	return p.transport.RoundTrip(r)
}

// spoil returns data as it arrives: cut ends it early, and flip changes a bit of a copy.
func spoil(data []byte, fault, cut, flip Fault, random uint64) []byte {
	switch fault {
	case cut:
		return chance.Cut(data, random)
	case flip:
		return chance.Flip(data, random)
	}
	return data
}

// refuse answers with an error in the form of S3.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>the proxy says so</Message></Error>", code)
}
