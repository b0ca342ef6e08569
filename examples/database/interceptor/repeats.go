package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
)

// Repeats answers a request with 429 if the same client made the same one a moment ago, and hands others to next.
// The store remembers each request for that long, and forgets it by itself. Its filters answer for most requests
// that are new. If the store fails, the request goes on.
func Repeats(db *shale.DB, moment time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			client = r.RemoteAddr
		}
		isNew, err := db.PutIfAbsentTTL([]byte(client+" "+r.Method+" "+r.URL.String()), nil, moment)
		if err == nil && !isNew {
			http.Error(w, "the same request was made a moment ago", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// repeats sends requests of two hundred clients for a hundred pages, and prints how many were turned away.
func repeats(dir string, requests int, out io.Writer) (err error) {
	db, err := shale.Open(filepath.Join(dir, "requests"), &shale.Options{
		Durability: shale.SyncManual,                        // what a crash forgets is let through once more
		Tuning:     shale.Tuning{FilterHash: shale.SipHash}, // strangers choose the URLs
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	reached := 0
	handler := Repeats(db, time.Hour, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	rng, seen := rand.New(rand.NewPCG(7, 8)), make(map[string]bool)
	for range requests {
		r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/page?id=%d", rng.IntN(100)), nil)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:%d", rng.IntN(200), 1024+rng.IntN(1000))
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		seen[client+r.URL.String()] = true
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if reached != len(seen) {
		return fmt.Errorf("%d different requests reached the server, and there were %d", reached, len(seen))
	}
	fmt.Fprintf(out, "\n%d of %d requests were the same as one of the same client before.\n", requests-reached, requests)
	return nil
}
