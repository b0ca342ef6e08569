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
//	Queries in vain:          other ids  the same 100      memory
//	no guard                      17998         17999           -
//	answers kept a second         17998          1839           -
//	set of all ids                    0             0    516912 B
//	filter of all ids                47             0     18880 B
//
//	While cache and database are down, the filter denies 18006 of 18035 users who do not exist, and 0 of 1965 who do.
//	A filter of the users who were asked for before denies 694 of these.
//
//	7353 of 20000 requests were the same as one of the same client before.
//
// The hash function has a new secret each time, so a few more or fewer may be stopped.
//
// The table compares the filter with the other guards that are used against such requests. To keep empty answers for
// a second helps as long as the ids repeat. A set of all ids helps always, and takes 27 times the memory. If the cache
// is down and the database must not get all requests, a filter of all ids is a right answer in an emergency, and one
// that was filled from the answers of the cache is not. Repeats is another middleware, which turns away the same
// request of the same client for a moment.
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
	if err := compare(ctx, u, ids, requests, n, out); err != nil {
		return err
	}
	if err := outage(ids, requests, n, out); err != nil {
		return err
	}
	return repeats(dir, requests, out)
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
