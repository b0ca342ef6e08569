package debug

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/shaledb/shale"
)

// page has the files of the page.
//
//go:embed page
var page embed.FS

// An Option changes what a Handler shows.
type Option func(*handler)

// ShowValues makes explanations show the values of keys that were found.
func ShowValues() Option { return func(h *handler) { h.showValues = true } }

// Title sets the name of the store on the page. The default is "store".
func Title(title string) Option { return func(h *handler) { h.title = title } }

// AsOf is for a store that does not change, such as a checkpoint. The page shows at,
// the time of the state that it describes, and the note. It leaves out what only a
// writing program can know, such as rates and compactions.
func AsOf(at time.Time, note string) Option {
	return func(h *handler) { h.asOf, h.note = at, note }
}

// Follow is for a store that is opened read-only while another program writes it. Before it
// answers, the handler makes the store show what that program has done (shale.DB.Advance), but
// not more often than every. For the rest it is like [AsOf] with the time of the last Advance.
func Follow(every time.Duration, note string) Option {
	return func(h *handler) { h.follows, h.every, h.asOf, h.note = true, every, time.Now(), note }
}

// A handler serves the pages of one store.
type handler struct {
	// Constant.
	db         *shale.DB
	title      string
	showValues bool
	follows    bool
	every      time.Duration // see Follow
	more       []Panel       // see WithPanel

	rates recorder // has a lock of its own

	advancing sync.Mutex // held by the request that advances the store
	mu        sync.Mutex // guards the following fields
	asOf      time.Time  // zero: the page shows the present state
	note      string
	next      time.Time // when to advance the store again
	failed    error     // of the last Advance
}

// advance makes a store that is followed show what its writer has done. While one request is at
// it, others show the state before. If it fails, the page says so, and shows the last state.
func (h *handler) advance(ctx context.Context) {
	if !h.follows || !h.advancing.TryLock() {
		return
	}
	defer h.advancing.Unlock()
	begin := time.Now()
	h.mu.Lock()
	due := !begin.Before(h.next)
	h.mu.Unlock()
	if !due {
		return
	}
	_, err := h.db.Advance(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next, h.failed = time.Now().Add(h.every), err
	if err == nil {
		h.asOf = begin
	}
}

// state returns the time of the state that the page shows, and what it says about that. A zero
// time is the present.
func (h *handler) state() (asOf time.Time, note string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed != nil {
		return h.asOf, fmt.Sprintf("What the writer has done since could not be read: %v. %s", h.failed, h.note)
	}
	return h.asOf, h.note
}

// Handler returns the pages of db; see the package comment. It may be mounted at
// any prefix, stripped or not. It may be used after the store is closed: then it
// answers that the store is closed.
func Handler(db *shale.DB, opts ...Option) http.Handler {
	h := &handler{db: db, title: "store"}
	for _, o := range opts {
		o(h)
	}
	return h
}

// policy is the Content-Security-Policy. It allows the page to load files of this handler
// and nothing else. Scripts and styles inside the page are forbidden, because a hostile
// key could be inside the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"Cache-Control":                "no-store",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD: nothing can be changed here", http.StatusMethodNotAllowed)
		return
	}
	// A page of another site may link to this one. It may not load anything from here.
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		http.Error(w, "asked by a page of another site", http.StatusForbidden)
		return
	}
	h.advance(r.Context())
	if err := h.serve(w, r); err != nil {
		http.Error(w, err.Error(), statusOf(err))
	}
}

// Errors of a request.
var (
	errNoPage = errors.New("there is no such page; api/ lists what there is")
	errBad    = errors.New("bad request")
)

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errBad):
		return http.StatusBadRequest
	case errors.Is(err, errNoPage):
		return http.StatusNotFound
	case errors.Is(err, shale.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// serve answers a request, or returns an error before it has written anything. It looks at
// the end of the path only, so that it need not know the prefix.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	dir, name := path.Split(r.URL.Path)
	asked, query, _ := strings.Cut(r.RequestURI, "?")
	switch {
	case r.URL.Path == "" && !strings.HasSuffix(asked, "/"): // stripped prefix, and no final slash
		w.Header().Set("Location", (&url.URL{Path: "./" + path.Base(asked) + "/", RawQuery: query}).String())
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	case strings.HasSuffix(dir, "api/") || name == "api":
		return h.serveAPI(w, r, strings.TrimSuffix(name, "api"))
	case name == "metrics":
		return h.serveMetrics(w)
	case name == "tree.svg":
		return h.serveTree(w, r)
	case name == "" && r.FormValue("format") == "json":
		return h.serveAll(w, r)
	case name == "" && r.FormValue("format") != "":
		return fmt.Errorf("%w: the only other format is json", errBad)
	case name == "":
		name = "index.html"
	}
	return serveFile(w, name)
}

// contentTypes are the types of the files of the page, by extension.
var contentTypes = map[string]string{
	".html":    "text/html; charset=utf-8",
	".js":      "text/javascript; charset=utf-8",
	".css":     "text/css; charset=utf-8",
	".LICENSE": "text/plain; charset=utf-8",
}

// serveFile writes a file of the page.
func serveFile(w http.ResponseWriter, name string) error {
	data, err := fs.ReadFile(page, "page/"+name)
	if err != nil {
		return errNoPage
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	_, _ = w.Write(data) // an error means that the client is gone
	return nil
}

// serveJSON writes v. Characters with a meaning in HTML are escaped, so that the answer
// does no harm where a browser takes it for a page.
func serveJSON(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n'))
	return nil
}
