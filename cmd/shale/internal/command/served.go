package command

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
)

// A servedStore is a store that is open read-only, so it shows the state of one moment. It is
// opened again when somebody looks at the page and this state is old.
type servedStore struct {
	dir     string
	every   time.Duration
	values  bool
	onEvent func(shale.Event)

	renewing sync.Mutex // held by the request that opens the store again
	mu       sync.RWMutex
	db       *shale.DB
	pages    http.Handler
	asOf     time.Time
	next     time.Time // when to open the store again
}

// reopenShare says that at most 1/reopenShare of the time is spent on opening the store again.
const reopenShare = 5

func openServed(dir string, every time.Duration, values bool, onEvent func(shale.Event)) (*servedStore, error) {
	s := &servedStore{dir: dir, every: every, values: values, onEvent: onEvent}
	err := s.open()
	s.onEvent = func(shale.Event) {} // these are the same events again; the page shows them
	return s, err
}

// open opens the store, and serves it from now on.
func (s *servedStore) open() error {
	begin := time.Now()
	db, err := shale.Open(s.dir, &shale.Options{ReadOnly: true, MustExist: true, OnEvent: s.onEvent})
	wait := max(s.every, reopenShare*time.Since(begin))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = time.Now().Add(wait)
	note := fmt.Sprintf("Opened again every %v while somebody looks. Rates, compactions and stalls, and how lookups fare, "+
		"are known to the program that has the store open: mount debug.Handler there.", wait.Round(time.Millisecond))
	if err != nil {
		if s.db != nil {
			note = "Opening it again failed: " + message(err)
			s.show(s.db, s.asOf, note)
		}
		return err
	}
	before := s.db
	s.show(db, begin, note)
	if before != nil {
		return before.Close()
	}
	return nil
}

func (s *servedStore) show(db *shale.DB, asOf time.Time, note string) {
	options := []debug.Option{debug.Title(s.dir), debug.AsOf(asOf, note)}
	if s.values {
		options = append(options, debug.ShowValues())
	}
	s.db, s.asOf, s.pages = db, asOf, debug.Handler(db, options...)
}

// ServeHTTP serves the page. While one request opens the store again, other requests get the
// state before.
func (s *servedStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	due := time.Now().After(s.next)
	s.mu.RUnlock()
	if due && s.renewing.TryLock() {
		_ = s.open() // if it fails, the page shows that
		s.renewing.Unlock()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.pages.ServeHTTP(w, r)
}

func (s *servedStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.db.Close() // it was open read-only
}
