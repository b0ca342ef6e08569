package program

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/cluster/cmd/internal/server"
	"github.com/shaledb/shale/debug"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// pages are the debug pages of the store, which a snapshot from the leader may replace.
type pages struct {
	mu      sync.Mutex
	of      *shale.DB
	handler http.Handler
}

// handler returns the pages of the member:
//
//	/            the group, for people
//	/health      200 if the member can serve, else 503
//	/metrics     for Prometheus
//	/members     the members as JSON; POST adds one, DELETE /members/ID removes one
//	/leader      POST hands the lead over
//	/store/      the debug page of the store
//
// A server alone has no group, and so only /health, /metrics and /store/. If there is a password, all but /health want it, as the password of any user.
func (m *member) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", m.serveMetrics)
	mux.HandleFunc("/store/", m.serveStore)
	if m.node == nil {
		mux.Handle("GET /{$}", http.RedirectHandler("store/", http.StatusSeeOther))
	} else {
		mux.HandleFunc("GET /{$}", m.servePage)
		mux.Handle("GET /style.css", http.FileServerFS(style))
		mux.HandleFunc("GET /members", m.serveMembers)
		mux.HandleFunc("POST /members", m.change(m.addMember))
		mux.HandleFunc("DELETE /members/{id}", m.change(m.removeMember))
		mux.HandleFunc("POST /leader", m.change(m.moveLead))
	}
	protected := m.protect(mux)
	outer := http.NewServeMux()
	outer.HandleFunc("GET /health", m.serveHealth)
	outer.Handle("/", protected)
	return outer
}

// protect lets requests through that know the password, and that do not come from a page of another site.
//
// Three things are checked. On loopback the name that was asked for must be this machine's own,
// against DNS rebinding. A request from a page of another site is refused, unless somebody has
// clicked on a link to here. And if there is a password, the request must have it. The headers keep
// a browser from loading or showing anything else next to the page.
func (m *member) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if isOwn(m.config.http) && !isOwn(r.Host) {
			// A web site could give its own name the address 127.0.0.1, and read these pages in the browser
			// of somebody on this machine.
			http.Error(w, "ask for localhost or 127.0.0.1", http.StatusForbidden)
			return
		}
		// Browsers set these headers themselves, and a page can't change them. Programs such as
		// curl have no such header, and pass.
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "asked by a page of another site", http.StatusForbidden)
			return
		}
		if m.config.secrets.password != "" {
			if _, given, ok := r.BasicAuth(); !ok || !m.server.Knows(given, m.admin.Load()) {
				h.Set("WWW-Authenticate", `Basic realm="shaled", charset="UTF-8"`)
				http.Error(w, "the password of this member is needed, with any user name", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// serveHealth answers load balancers and systemd. It needs no password and tells nothing secret. A
// member without a leader is not healthy, because it could take no write.
func (m *member) serveHealth(w http.ResponseWriter, _ *http.Request) {
	ok, why := m.health()
	status, answer := http.StatusOK, map[string]any{"ok": ok}
	if m.node != nil {
		answer["member"] = m.config.ID
	}
	if !ok {
		status, answer["why"] = http.StatusServiceUnavailable, why
	}
	serveJSON(w, status, answer)
}

// serveMetrics puts the metrics of the store and those of the group behind each other. If the
// member has stopped, there is no store to ask, and those of the group say so.
func (m *member) serveMetrics(w http.ResponseWriter, r *http.Request) {
	text := m.metrics()
	if err := m.withStore(func(h http.Handler) { h.ServeHTTP(w, r) }); err != nil { // which sets the type
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	}
	_, _ = io.WriteString(w, text) // the client may be gone
}

// serveStore shows the pages of package debug for the current store.
func (m *member) serveStore(w http.ResponseWriter, r *http.Request) {
	if err := m.withStore(func(h http.Handler) { h.ServeHTTP(w, r) }); err != nil {
		http.Error(w, message(err), http.StatusServiceUnavailable)
	}
}

// withStore calls fn with the pages of the store that is current, which stays so meanwhile.
//
// The pages belong to one store, and keep what they have sampled of it. When a snapshot of the
// leader replaces the store, they begin again. View keeps the store open while fn runs.
func (m *member) withStore(fn func(http.Handler)) error {
	return m.view(func(db *shale.DB) error {
		p := &m.pages
		p.mu.Lock()
		if p.of != db {
			options := []debug.Option{debug.Title(strings.TrimSpace("shaled " + m.config.ID))}
			if m.config.values {
				options = append(options, debug.ShowValues())
			}
			p.of, p.handler = db, debug.Handler(db, options...)
		}
		h := p.handler
		p.mu.Unlock()
		fn(h)
		return nil
	})
}

// A memberJSON is a member as the pages show it to programs.
type memberJSON struct {
	ID      string            `json:"id"`
	Address string            `json:"address"`
	Voter   bool              `json:"voter"`
	Leader  bool              `json:"leader"`
	Why     string            `json:"unreachable,omitempty"` // why it has not answered this one
	Behind  uint64            `json:"behind"`                // entries of the log that others have and its state lacks
	About   map[string]string `json:"about,omitempty"`
}

// surveyTime is how long a member may take to say how it is.
const surveyTime = 2 * time.Second

// members asks all members how they are.
func (m *member) members(ctx context.Context) ([]memberJSON, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	all, err := m.node.Survey(ctx, 0)
	list, last := make([]memberJSON, len(all)), uint64(0)
	for _, one := range all {
		last = max(last, one.Applied)
	}
	for i, one := range all {
		list[i] = memberJSON{ID: one.ID, Address: one.Address, Voter: one.Voter, Leader: one.Leader, Behind: last - one.Applied, About: one.About}
		if one.Err != nil {
			list[i].Why, list[i].Behind = message(one.Err), 0
		}
	}
	return list, err
}

// addressOf returns where clients find a member, or "" if that is not known.
func (m *member) addressOf(id string) string {
	if addr := m.config.clients[id]; addr != "" || m.node == nil {
		return addr
	}
	return m.addresses.of(id, func() map[string]string {
		all := make(map[string]string)
		for _, one := range m.clientMembers(context.Background()) {
			all[one.ID] = one.Addr
		}
		return all
	})
}

// addresses are where clients find the members. Each write that is refused needs one, and none is worth a question to all
// members: they are asked again after a second.
type addresses struct {
	mu    sync.Mutex // held while members are asked, so that others wait for the same answer
	all   map[string]string
	asked time.Time
}

// of returns the address of a member. ask asks all of them.
func (a *addresses) of(id string, ask func() map[string]string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.asked) >= time.Second {
		a.all, a.asked = ask(), time.Now()
	}
	return a.all[id]
}

// clientMembers returns the members that answer, and where clients find them: at the address of --clients, or else where the
// member says that it listens. One that listens on all addresses is found at the host at which other members find it.
//
// Clients wait for it when they look for the next leader, and soon ask another member, so one that hangs must not hold it up. If
// the leader is silent, only this member is returned.
func (m *member) clientMembers(ctx context.Context) (found []server.Member) {
	s := m.node.Stats()
	if !m.node.IsLeader() && time.Since(s.Contact) > m.config.heartbeat/2 {
		return []server.Member{{ID: m.config.ID, Applied: s.Applied, Self: true}}
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTime/4)
	defer cancel()
	all, _ := m.node.Survey(ctx, surveyTime/20) // none of a member that has stopped
	for _, one := range all {
		addr := m.config.clients[one.ID]
		if addr == "" {
			addr = one.About["clients"]
			// 0.0.0.0 and :: are addresses to listen on, and none that a client could connect to.
			if host, port, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsUnspecified() {
				host, _, _ = net.SplitHostPort(one.Address)
				addr = net.JoinHostPort(host, port)
			}
		}
		if one.Err == nil && addr != "" {
			found = append(found, server.Member{
				ID: one.ID, Addr: addr, Peer: one.Address, Applied: one.Applied, Leader: one.Leader, Self: one.ID == m.config.ID,
			})
		}
	}
	return found
}

// about is what this member says of itself on all members.
func (m *member) about() map[string]string {
	about := map[string]string{"version": version(), "clients": m.addr, "backup": m.backupLine()}
	if free, ok := vfs.FreeRoom(m.config.dir); ok {
		about["disk free"] = base.FormatBytes(free)
	}
	return about
}

// serveMembers returns the members as JSON, for the command members and for programs of an
// operator.
func (m *member) serveMembers(w http.ResponseWriter, r *http.Request) {
	list, err := m.members(r.Context())
	if err != nil {
		serveError(w, err)
		return
	}
	serveJSON(w, http.StatusOK, list)
}

// A changeRequest is what the commands join and transfer send.
type changeRequest struct {
	ID      string `json:"id"`
	Address string `json:"address,omitempty"`
	Learner bool   `json:"learner,omitempty"`
}

// change is the handler of a request that changes the group. It takes JSON only, which a form of a web page can't
// send.
func (m *member) change(do func(r *http.Request, c changeRequest) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var c changeRequest
		if !m.mayChange(r) {
			http.Error(w, "changes of the group from another machine need the password of --admin-password-file; on this machine the password of clients does", http.StatusForbidden)
			return
		}
		// A form of another site can only send three types of content, and JSON is not among them.
		body := http.MaxBytesReader(w, r.Body, 64<<10)
		if r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "the Content-Type has to be application/json", http.StatusUnsupportedMediaType)
			return
		}
		if err := json.NewDecoder(body).Decode(&c); err != nil && !errors.Is(err, io.EOF) {
			http.Error(w, fmt.Sprintf("the request is not what it should be: %v", err), http.StatusBadRequest)
			return
		}
		if err := do(r, c); err != nil {
			serveError(w, err)
			return
		}
		m.serveMembers(w, r)
	}
}

// mayChange reports whether a request may change the group: it comes from this machine, or has the password for that. That
// of clients is for their data.
func (m *member) mayChange(r *http.Request) bool {
	_, given, _ := r.BasicAuth()
	admin := m.admin.Load()
	return isOwn(r.RemoteAddr) || admin.Is([]byte(given)) || admin == nil && m.config.unprotected
}

// addMember, removeMember and moveLead do what the commands join, leave and transfer ask for. Each
// is printed, so that the log of a member says why a group has changed.
func (m *member) addMember(r *http.Request, c changeRequest) error {
	m.logf("asked to take in member %s at %s", c.ID, c.Address)
	if c.Learner {
		return m.node.AddLearner(r.Context(), c.ID, c.Address)
	}
	return m.node.AddVoter(r.Context(), c.ID, c.Address)
}

func (m *member) removeMember(r *http.Request, _ changeRequest) error {
	m.logf("asked to remove member %s", r.PathValue("id"))
	return m.node.Remove(r.Context(), r.PathValue("id"))
}

func (m *member) moveLead(r *http.Request, c changeRequest) error {
	m.logf("asked to hand the lead to %s", cmp.Or(c.ID, "another member"))
	return m.node.TransferLeadership(r.Context(), c.ID)
}

// An errorJSON is an error as the pages tell it to programs. Leader is set if another member has to be asked.
type errorJSON struct {
	Error  string `json:"error"`
	Leader string `json:"leader,omitempty"`
}

// serveError answers with 421 if another member leads, which the commands take for "ask the
// others", and otherwise with 500.
func serveError(w http.ResponseWriter, err error) {
	var other *cluster.NotLeaderError
	if errors.As(err, &other) {
		serveJSON(w, http.StatusMisdirectedRequest, errorJSON{message(err), other.ID})
		return
	}
	serveJSON(w, http.StatusInternalServerError, errorJSON{Error: message(err)})
}

// serveJSON answers with a value in JSON and a newline, which is pleasant for curl.
func serveJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

//go:embed page.html
var pageText string

//go:embed style.css
var style embed.FS

// pageTemplate is parsed at the start, so that a mistake in it fails every test and no request.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// servePage shows the group to people.
func (m *member) servePage(w http.ResponseWriter, r *http.Request) {
	members, err := m.members(r.Context())
	ok, why := m.health()
	stats, counts := m.node.Stats(), m.server.Counts()
	data := map[string]any{
		"ID": m.config.ID, "OK": ok, "Why": why, "Members": members, "Stats": stats, "Counts": counts, "Reads": m.config.reads, "Forward": m.config.Forward,
		"State": strings.ToLower(stats.State), "Addr": m.addr, "Address": m.node.Address(), "Behind": stats.Commit - min(stats.Commit, stats.Applied),
		"Uptime": time.Since(m.started).Round(time.Second), "Backup": m.backupLine(), "Version": version(),
		"ReadMean": mean(counts.Reads.Time, counts.Reads.N), "WriteMean": mean(counts.Writes.Time, counts.Writes.N),
	}
	if err != nil {
		data["Why"] = message(err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pageTemplate.Execute(w, data) // the client may be gone
}

// mean returns the average time of n calls as text, or a dash if there were none.
func mean(sum time.Duration, n int64) string {
	if n == 0 {
		return "-"
	}
	return (sum / time.Duration(n)).Round(time.Microsecond).String()
}

// pagesURL is where people find the pages.
func (m *member) pagesURL() string {
	if m.http == "" {
		return "no address"
	}
	scheme := "http"
	if m.config.secrets.cert != "" {
		scheme = "https"
	}
	return scheme + "://" + m.http + "/"
}
