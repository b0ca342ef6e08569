package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// A server answers requests for users, with or without an Interceptor.
type server struct {
	users *users
	ids   *IDs         // nil: no filter
	guard *Interceptor // in front of the requests for one user; nil: none
}

// newServer returns a server for the table. Without ids, all requests reach the database.
func newServer(u *users, ids *IDs) (*server, http.Handler) {
	s := &server{users: u, ids: ids}
	mux := http.NewServeMux()
	var get http.Handler = http.HandlerFunc(s.get)
	if ids != nil {
		s.guard = Middleware(ids, userID, get)
		get = s.guard
	}
	// The handler of a pattern is wrapped, and not the whole mux: only there PathValue is set.
	mux.Handle("GET /users/{id}", get)
	mux.HandleFunc("PUT /users/{id}", s.put)
	mux.HandleFunc("DELETE /users/{id}", s.remove)
	mux.HandleFunc("POST /reload", s.reload)
	mux.HandleFunc("GET /metrics", s.metrics)
	return s, mux
}

// userID returns the id that a request is for.
func userID(r *http.Request) (id string, ok bool) {
	id = r.PathValue("id")
	return id, id != ""
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	profile, err := s.users.find(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r) // what the Interceptor answers too
	case err != nil:
		fail(w, err)
	default:
		_, _ = io.WriteString(w, profile+"\n") // an error means that the client is gone
	}
}

// maxProfile is the largest profile in bytes.
const maxProfile = 1 << 16

func (s *server) put(w http.ResponseWriter, r *http.Request) {
	profile, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxProfile))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	commit := func() error { return s.users.put(r.Context(), id, string(profile)) }
	if s.ids != nil {
		err = s.ids.Insert(id, commit)
	} else {
		err = commit()
	}
	done(w, err)
}

// remove deletes a row. Its id stays in the filter until the next reload; requests for it
// reach the database and find nothing.
func (s *server) remove(w http.ResponseWriter, r *http.Request) {
	done(w, s.users.remove(r.Context(), r.PathValue("id")))
}

func (s *server) reload(w http.ResponseWriter, r *http.Request) {
	if s.ids == nil {
		http.Error(w, "this server has no filter", http.StatusNotFound)
		return
	}
	done(w, s.ids.Reload(r.Context()))
}

func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	var m struct {
		Metrics
		Queries int64 `json:"queries"` // of the database, for one user each
	}
	if s.guard != nil {
		m.Metrics = s.guard.Metrics()
	}
	m.Queries = s.users.queries.Load()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m) // an error means that the client is gone
}

func done(w http.ResponseWriter, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func fail(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
