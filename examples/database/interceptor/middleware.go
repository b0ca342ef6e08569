package main

import (
	"net/http"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
)

// An Interceptor answers requests for unknown ids with 404, so that its next handler does not
// see them. It is made by Middleware. Any number of goroutines may use it at once, if its set
// allows that.
type Interceptor struct {
	set  bloom.Set
	id   func(*http.Request) (key string, ok bool)
	next http.Handler

	stopped, passed, without atomic.Int64
}

// Middleware puts set in front of next. id takes the id out of a request; ok is false if the
// request has none, and then goes to next. The set must have all ids that next knows: a
// request for one that it denies gets 404, whatever next would say.
func Middleware(set bloom.Set, id func(*http.Request) (key string, ok bool), next http.Handler) *Interceptor {
	return &Interceptor{set: set, id: id, next: next}
}

// ServeHTTP answers 404 itself, or calls next.
func (i *Interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, ok := i.id(r)
	switch {
	case !ok:
		i.without.Add(1)
	case !i.set.MayContainString(key):
		i.stopped.Add(1)
		http.NotFound(w, r)
		return
	default:
		i.passed.Add(1)
	}
	i.next.ServeHTTP(w, r)
}

// Metrics are the counts of an Interceptor since it was made, as JSON.
type Metrics struct {
	Stopped   int64 `json:"stopped"`   // requests that were answered here
	Passed    int64 `json:"passed"`    // requests whose id may be known
	WithoutID int64 `json:"withoutId"` // requests without an id, which went to the next handler
	SetBytes  int   `json:"setBytes"`  // memory of the set
}

// Metrics returns the counts. Under load, they are of slightly different moments.
func (i *Interceptor) Metrics() Metrics {
	return Metrics{i.stopped.Load(), i.passed.Load(), i.without.Load(), i.set.SizeBytes()}
}
