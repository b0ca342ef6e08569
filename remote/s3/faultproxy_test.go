package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A faultProxy is a proxy between a client of an S3 server and the server, which makes the faults of
// networks: it loses, delays, repeats and damages requests and answers.
//
// It differs from buckettest.Faulty in where the faults happen. Faulty makes them between a program and a
// bucket; the proxy makes them below the bucket, so that the bucket's own code has to deal with them: with
// connections that end in the middle of an answer, with status codes, and with bodies that the checksums of
// the protocol have to catch.
//
// The proxy does not damage the answers to lists and to questions about an object: the protocol has no
// checksum for them, and on a real network that of TLS protects them. Any number of clients may use it.
type faultProxy struct {
	Wait time.Duration // how long a Delay takes; 0: 20 ms

	target    *url.URL
	transport *http.Transport
	front     *httptest.Server
	decide    func(proxyRequest) proxyFault

	mu     sync.Mutex // protects the following fields
	n      int64
	counts map[string]int64     // of requests, by method
	faults map[proxyFault]int64 // that fitted to their requests
	held   []*message           // the requests that Replay sends
	random uint64               // which bit, and how many bytes; the same each time
}

// newProxy starts a proxy to the server at target, such as "127.0.0.1:7070". It ends with the test. decide chooses
// the fault of each request; it is called under a lock, in the order of proxyRequest.N, and nil means no faults.
func newProxy(t testing.TB, target string, decide func(proxyRequest) proxyFault) *faultProxy {
	t.Helper()
	if decide == nil {
		decide = func(proxyRequest) proxyFault { return None }
	}
	p := &faultProxy{
		target: &url.URL{Scheme: "http", Host: target}, transport: &http.Transport{MaxIdleConnsPerHost: 64}, decide: decide,
		counts: map[string]int64{}, faults: map[proxyFault]int64{},
	}
	p.front = httptest.NewServer(p)
	t.Cleanup(func() {
		p.front.Close()
		p.transport.CloseIdleConnections()
	})
	return p
}

// Addr returns the address of the proxy, such as "127.0.0.1:40001".
func (p *faultProxy) Addr() string { return p.front.Listener.Addr().String() }

// Count returns the number of requests so far with a method, whatever has become of them.
func (p *faultProxy) Count(method string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[method]
}

// Happened returns how often a fault has happened.
func (p *faultProxy) Happened(f proxyFault) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[f]
}

// Replay sends everything that is late, and repeats everything that was duplicated, in the order of the
// requests. It returns how many there were. Each is sent once. The answers of the server are dropped, like
// those to packets that arrive after their sender is gone.
func (p *faultProxy) Replay(ctx context.Context) int {
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
func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
func (p *faultProxy) next(m *message) (proxyFault, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.counts[m.method]++
	absent := m.header.Get("If-None-Match") != ""
	fault := p.decide(proxyRequest{p.n, m.method, m.url.Path, absent})
	changes := m.method == http.MethodPut || m.method == http.MethodDelete
	switch {
	case !changes && (fault == Late || fault == Duplicate), fault == Conflict && !absent,
		len(m.body) == 0 && (fault == CutBody || fault == FlipBody), m.method != http.MethodGet && (fault == CutAnswer || fault == FlipAnswer):
		fault = None
	}
	p.faults[fault]++
	p.random = p.random*6364136223846793005 + 1442695040888963407
	return fault, p.random >> 33
}

// hold keeps a request for Replay.
func (p *faultProxy) hold(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, m)
}

// sleep waits as long as a Delay takes, or until ctx ends.
func (p *faultProxy) sleep(ctx context.Context) {
	wait := p.Wait
	if wait == 0 {
		wait = 20 * time.Millisecond
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done(): // it fails where it is sent
	}
}

// send sends a request to the server, with a body that may be another one than the client's. If that is
// shorter, the connection ends after it.
func (p *faultProxy) send(ctx context.Context, m *message, body []byte) (*http.Response, error) {
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
func spoil(data []byte, fault, cut, flip proxyFault, random uint64) []byte {
	n := uint64(len(data))
	switch {
	case n == 0:
	case fault == cut:
		return data[:random%n]
	case fault == flip:
		data = bytes.Clone(data)
		data[random/8%n] ^= 1 << (random % 8)
	}
	return data
}

// refuse answers with an error in the form of S3.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>the proxy says so</Message></Error>", code)
}

// A proxyRequest is one request that has arrived at a faultProxy.
type proxyRequest struct {
	N      int64  // its number, from 1
	Method string // such as PUT
	Path   string // of the URL
	Absent bool   // it has the condition If-None-Match
}

// A proxyFault says what goes wrong with one request.
type proxyFault int

// The faults. A request that a fault does not fit to passes as usual: only PUT and DELETE can be late or
// duplicated, only a PUT with a condition can conflict, only a request with a body can have it cut or
// flipped, and only the bytes of an object can be cut or flipped in an answer.
const (
	None       proxyFault = iota
	DropBefore            // the connection ends before the server sees the request
	DropAfter             // the server acts, and the connection ends instead of an answer
	Late                  // the connection ends, and the server sees the request only when Replay is called
	Duplicate             // the server acts, and sees the request again when Replay is called
	Delay                 // it takes faultProxy.Wait longer
	Conflict              // 409: the server asks to repeat the request, and does not act
	Busy                  // 503: the server asks to slow down, and does not act
	CutBody               // the server gets a part of the body, and then the connection ends
	FlipBody              // a bit of the body changes on the way to the server
	CutAnswer             // the client gets a part of the object, and then the connection ends
	FlipAnswer            // a bit of the object changes on the way to the client
	numFaults
)

var faultNames = [numFaults]string{
	"None", "DropBefore", "DropAfter", "Late", "Duplicate", "Delay", "Conflict", "Busy", "CutBody", "FlipBody", "CutAnswer", "FlipAnswer",
}

// String returns the name of the constant.
func (f proxyFault) String() string {
	if f < 0 || f >= numFaults {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faultNames[f]
}

// allFaults returns all faults, without None.
func allFaults() []proxyFault {
	var all []proxyFault
	for f := None + 1; f < numFaults; f++ {
		all = append(all, f)
	}
	return all
}

// faultRates says how often each fault happens, from 0 to 1. Together they are at most 1.
type faultRates map[proxyFault]float64

// evenly returns rates with which each fault happens equally often, and all together to a part of the requests,
// from 0 to 1.
func evenly(part float64) faultRates {
	rates := make(faultRates)
	for _, f := range allFaults() {
		rates[f] = part / float64(numFaults-1)
	}
	return rates
}

// bySeed returns a function for newProxy that chooses faults by chance. The same seed and rates choose the same
// faults for the same numbers of requests, whatever the requests are.
func bySeed(seed uint64, rates faultRates) func(proxyRequest) proxyFault {
	return func(r proxyRequest) proxyFault {
		x := rand.New(rand.NewPCG(seed, uint64(r.N))).Float64()
		for _, f := range allFaults() {
			if x < rates[f] {
				return f
			}
			x -= rates[f]
		}
		return None
	}
}
