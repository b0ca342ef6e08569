package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"

	"github.com/shaledb/shale/bundle"
)

// A server answers with the newest bundle that it could load. Handlers run on goroutines of
// their own: they load current once, and use that bundle to the end.
type server struct {
	file    string
	logf    func(string, ...any)
	current atomic.Pointer[bundle.Bundle] // set before the first request
	loaded  os.FileInfo                   // file of the last load; only load and watch use it

	asked, absent atomic.Int64 // keys asked for; keys answered with absent
}

const (
	maxBundle = 1 << 30 // bytes of a bundle
	maxBody   = 1 << 20 // bytes of a request
)

// handler returns the routes. The mux answers other methods with 405.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /may", s.mayOne)
	mux.HandleFunc("POST /may", s.mayMany)
	mux.HandleFunc("GET /info", s.info)
	return mux
}

// The answers. A client may rely on an absent, and not on a maybe.
const (
	maybe = "maybe\n"
	no    = "absent\n"
)

// mayOne answers for the key in the URL.
func (s *server) mayOne(w http.ResponseWriter, r *http.Request) {
	// Query() would ignore what is not well-formed. A key in that part would be lost, and
	// the server would answer for another one.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["key"]) != 1 {
		http.Error(w, "want one key: /may?key=...", http.StatusBadRequest)
		return
	}
	answer := no
	if s.current.Load().MayContain([]byte(query.Get("key"))) {
		answer = maybe
	} else {
		s.absent.Add(1)
	}
	s.asked.Add(1)
	s.reply(w, []byte(answer))
}

// mayMany answers for each line of the body. All answers come from one bundle.
func (s *server) mayMany(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil { // it is too large, or the client is gone
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	b := s.current.Load()
	var answers []byte
	asked, absent := 0, 0
	for line := range bytes.Lines(body) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		asked++
		if b.MayContain(line) {
			answers = append(answers, maybe...)
		} else {
			absent++
			answers = append(answers, no...)
		}
	}
	s.asked.Add(int64(asked))
	s.absent.Add(int64(absent))
	s.reply(w, answers)
}

// info describes the bundle that is served.
func (s *server) info(w http.ResponseWriter, _ *http.Request) {
	b := s.current.Load()
	text := fmt.Appendf(nil, "store %016x at sequence number %d, exported %s\n%d keys in %d tables of %d runs, %d bytes, %.3g %% false positives predicted\n",
		b.StoreID(), b.Seq(), b.Created().UTC().Format("2006-01-02 15:04:05 UTC"), b.Keys(), b.Tables(), b.Runs(), b.SizeBytes(), 100*b.PredictedFPR())
	if err := b.Err(); err != nil {
		text = fmt.Appendln(text, err)
	}
	s.reply(w, fmt.Appendln(text, s.saved()))
}

// saved says how many questions to the store the filters have saved.
func (s *server) saved() string {
	asked, absent := s.asked.Load(), s.absent.Load()
	return fmt.Sprintf("%d keys asked, %d of them (%.1f %%) answered absent: so many questions the store was spared",
		asked, absent, 100*float64(absent)/float64(max(asked, 1)))
}

// reply writes text. Caches must not keep it.
func (s *server) reply(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store") // a newer bundle may answer otherwise
	if _, err := w.Write(text); err != nil {
		s.logf("reply: %v", err)
	}
}
