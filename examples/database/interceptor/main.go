// Command interceptor keeps requests for users who do not exist away from a SQL database. (A cache
// does not help against them, as each may be for another id.) An HTTP middleware asks a Bloom
// filter for the id of each request, and the filter follows the table while users are added.
//
//	cd examples/database
//	go run ./interceptor
//
// prints
//
//	17991 of 20000 requests were for users who do not exist. 24 of these were queries.
//
// The hash function has a new secret each time, so a few more or fewer may be stopped.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// Middleware answers requests for ids that the filter denies with 404. All others go to next.
func Middleware(ids *IDs, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !ids.MayContain(r.PathValue("id")) {
			http.NotFound(w, r)
			return
		}
		next(w, r)
	}
}

// newHandler returns a server of the table, with a filter in front.
func newHandler(u *users, ids *IDs) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", Middleware(ids, func(w http.ResponseWriter, r *http.Request) {
		profile, err := u.find(r.Context(), r.PathValue("id"))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			http.NotFound(w, r) // what the middleware answers too
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, profile) // an error means that the client is gone
		}
	}))
	mux.HandleFunc("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		err := ids.Insert(id, func() error { return u.put(r.Context(), id, r.FormValue("profile")) })
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// run makes a table of n users, and sends requests for users, of whom nine in ten do not exist.
func run(ctx context.Context, dir string, requests, n int, out io.Writer) error {
	u, err := newUsers(ctx, filepath.Join(dir, "users.sqlite"), n)
	if err != nil {
		return err
	}
	defer u.db.Close()
	ids, err := NewIDs(ctx, u.each)
	if err != nil {
		return err
	}
	handler, rng, absent := newHandler(u, ids), rand.New(rand.NewPCG(1, 2)), 0
	for range requests {
		id, want := fmt.Sprint("user", rng.IntN(n)), http.StatusOK
		if rng.Float64() < 0.9 {
			id, want = fmt.Sprint("nobody", rng.IntN(1_000_000_000)), http.StatusNotFound
			absent++
		}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/users/"+id, nil)); w.Code != want {
			return fmt.Errorf("%s: status %d, want %d", id, w.Code, want)
		}
	}
	vain := int(u.queries.Load()) - (requests - absent)
	fmt.Fprintf(out, "%d of %d requests were for users who do not exist. %d of these were queries.\n", absent, requests, vain)
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "interceptor")
	if err == nil {
		err = errors.Join(run(context.Background(), dir, 20_000, 10_000, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}
