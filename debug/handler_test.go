package debug

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/internal/svg/svgtest"
	"github.com/shaledb/shale/vfs"
)

// hostile are keys and values that a page could take for something else.
var hostile = []string{
	"<script>document.title='owned'</script>", "<img src=x onerror=alert(1)>", "</title></svg><script>alert(1)</script>",
	`"quotes' and \backslashes`, "\x00\x01\x1b[31m", "\xff\xfe\x80", "\u202egnp.exe", "]]>&amp;&lt;", "new\nline\r\t",
	"javascript:alert(1)", "${alert(1)}", strings.Repeat("<b>", 20000), strings.Repeat("\xff", shale.MaxKeySize), "",
}

const secret = "top secret <i>value</i>"

// openStore makes a store of hostile and plain keys in several tables, with
// lookups, flushes and compactions behind it.
func openStore(t testing.TB) *shale.DB {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), TableSize: 16 << 10, CompactionWorkers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, shale.ErrClosed) {
			t.Error(err)
		}
	})
	for round := range 2 {
		var b shale.Batch
		for _, key := range hostile {
			b.Put([]byte(key), []byte(secret))
		}
		for i := range 1000 {
			b.Put(fmt.Appendf(nil, "key%04d", 2*i+round), fmt.Append(nil, i))
		}
		if err := errors.Join(db.Write(t.Context(), &b), db.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), shale.Range{}); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if _, err := db.Has(fmt.Appendf(nil, "key%04dx", i)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func ask(t testing.TB, h http.Handler, method, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func get(t testing.TB, h http.Handler, target string) string {
	t.Helper()
	r := ask(t, h, http.MethodGet, target)
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", target, r.Status, err, body)
	}
	return string(body)
}

func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}

// Everything is found below any prefix, stripped or not.
func TestHandler_AnyPrefix(t *testing.T) {
	db := openStore(t)
	h := Handler(db, Title("the store"))
	for prefix, mounted := range map[string]http.Handler{
		"/":              h,
		"/debug/shale/":  h,
		"/a/b/c/":        http.StripPrefix("/a/b/c", h),
		"/api/":          http.StripPrefix("/api", h),
		"/stores/hosts/": http.StripPrefix("/stores/hosts/", h),
	} {
		for name, want := range map[string]string{
			"": "<!DOCTYPE html>", "app.js": "import", "uplot.js": "uPlot", "uplot.LICENSE": "MIT", "style.css": "body",
			"api/overview": `"title":"the store"`, "?format=json": `"filters":{`, "metrics": "# TYPE", "tree.svg": "<svg", "api/": `"explain"`,
		} {
			if body := get(t, mounted, prefix+name); !strings.Contains(body, want) {
				t.Errorf("%s%s: %.80s; want %s", prefix, name, body, want)
			}
		}
	}
	r := ask(t, http.StripPrefix("/debug/shale", h), http.MethodGet, "/debug/shale?x=1")
	if to := r.Header.Get("Location"); r.StatusCode != http.StatusMovedPermanently || to != "./shale/?x=1" {
		t.Errorf("without the slash: %s to %s", r.Status, to)
	}
}

func TestHandler_Refuses(t *testing.T) {
	h := Handler(openStore(t))
	for _, c := range []struct {
		method, target string
		status         int
		header         []string
	}{
		{"POST", "/", 405, nil},
		{"DELETE", "/api/explain?key=k", 405, nil},
		{"PUT", "/metrics", 405, nil},
		{"GET", "/nothing", 404, nil},
		{"GET", "/page/../handler.go", 404, nil},
		{"GET", "/api/nothing", 404, nil},
		{"GET", "/api/explain", 400, nil},
		{"GET", "/api/explain?key=0x1", 400, nil},
		{"GET", "/api/rates?since=x", 400, nil},
		{"GET", "/?format=xml", 400, nil},
		{"GET", "/tree.svg?by=x", 400, nil},
		{"GET", "/tree.svg?width=1e9", 400, nil},
		{"GET", "/tree.svg?width=900", 200, nil},
		{"GET", "/api/overview", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{"GET", "/", 200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{"HEAD", "/", 200, nil},
		{"HEAD", "/api/explain?key=", 200, nil},
	} {
		r := ask(t, h, c.method, c.target, c.header...)
		if r.StatusCode != c.status {
			t.Errorf("%s %s: %s, want %d", c.method, c.target, r.Status, c.status)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q", c.method, c.target, name, got)
			}
		}
		if p := r.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s %s: policy %q", c.method, c.target, p)
		}
	}
}

// Answers escape all keys and values, and show no values without the option.
func TestHandler_HostileKeys(t *testing.T) {
	h := Handler(openStore(t))
	targets := []string{"/", "/?format=json", "/metrics", "/tree.svg?by=fpr", "/tree.svg?by=bits", "/tree.svg?by=size"}
	for _, p := range panels() {
		targets = append(targets, "/api/"+p.name)
	}
	for _, key := range hostile {
		targets = append(targets, "/api/explain?key="+url.QueryEscape(quoting.Quote(key)))
	}
	for _, target := range targets {
		r := ask(t, h, http.MethodGet, target)
		text, err := io.ReadAll(r.Body)
		body := string(text)
		if r.StatusCode != http.StatusOK || err != nil {
			t.Errorf("%.60s: %s, %v", target, r.Status, err)
		}
		if len(body) > 256<<10 {
			t.Errorf("%.60s: %d bytes", target, len(body))
		}
		for _, bad := range []string{"<script>d", "<img", "<b>", "onerror=alert(1)>", "\x00", "\x1b", "\xff", "\u202e", secret, "top secret"} {
			if strings.Contains(body, bad) {
				t.Errorf("%.60s: the answer has %q in it", target, bad)
			}
		}
		if path.Ext(strings.Split(target, "?")[0]) == ".svg" {
			svgtest.Parse(t, body)
		}
	}
}

func TestHandler_Explain(t *testing.T) {
	db := openStore(t)
	hidden, shown := Handler(db), Handler(db, ShowValues())
	for _, key := range hostile {
		target := "/api/explain?key=" + url.QueryEscape(quoting.Quote(key))
		x := decode[explanation](t, get(t, hidden, target))
		if !x.Found || x.Value != nil || x.ValueBytes != len(secret) || len(x.Steps) == 0 || x.Key != quoting.Short(key, shortValue) {
			t.Errorf("explain of %.40q: %+v", key, x)
		}
		x = decode[explanation](t, get(t, shown, target))
		if x.Value == nil || *x.Value != quoting.Quote(secret) {
			t.Errorf("explain of %.40q with values: %+v", key, x)
		}
	}
	hex := decode[explanation](t, get(t, hidden, "/api/explain?key=0x6b65793030303178")) // key0001x
	if hex.Found || hex.Key != "key0001x" || hex.Covered == 0 || hex.SaidNo+hex.FalsePositives != hex.Covered {
		t.Errorf("explain of an absent key: %+v", hex)
	}
	if err := errors.Join(db.DeleteRange([]byte("key0001"), []byte("key0002")), db.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	x := decode[explanation](t, get(t, hidden, "/api/explain?key=key0001"))
	if x.Found || x.BlocksRead != 0 || !strings.Contains(x.RangeDelete, `"key0001".."key0002"`) {
		t.Errorf("explain of a key of a range delete: %+v", x)
	}
	metrics := get(t, hidden, "/metrics")
	for _, line := range []string{"\nshale_range_deletes 1\n", "\nshale_memory_bytes{owner=\"range_deletes\"} "} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
}

func TestHandler_Panels(t *testing.T) {
	db := openStore(t)
	all := decode[struct {
		Overview    overview
		Filters     filterUse
		Compactions []work
		Memory      []memoryUse
		Metrics     map[string]float64
	}](t, get(t, Handler(db), "/?format=json"))
	m := db.Metrics()
	if all.Overview.Gets != m.Gets || all.Overview.ReadsSaved != m.FilterNegative || all.Overview.Tables != len(db.Inspect().Tables()) || all.Overview.AsOf != 0 {
		t.Errorf("overview: %+v", all.Overview)
	}
	if len(all.Filters.Levels) == 0 || len(all.Filters.Worst) == 0 || all.Filters.Levels[0].Asked == 0 {
		t.Errorf("filters: %+v", all.Filters)
	}
	for _, w := range all.Filters.Worst {
		i := slices.IndexFunc(db.Inspect().Tables(), func(t shale.TableInfo) bool { return t.Number == w.Table })
		if i < 0 || w.Smallest != quoting.Short(db.Inspect().Tables()[i].Smallest, shortKey) || w.Largest != quoting.Short(db.Inspect().Tables()[i].Largest, shortKey) {
			t.Errorf("table: %+v", w)
		}
	}
	if n := uint64(len(all.Compactions)); n < m.Flushes || n == 0 {
		t.Errorf("%d flushes and compactions, at least %d flushes happened", n, m.Flushes)
	}
	if len(all.Memory) != 6 || all.Memory[2].Bytes != m.FilterMemory {
		t.Errorf("memory: %+v", all.Memory)
	}
	if all.Metrics["shale_gets_total"] != float64(m.Gets) {
		t.Errorf("metrics: %v", all.Metrics)
	}
	at := time.UnixMilli(1e12)
	o := decode[overview](t, get(t, Handler(db, AsOf(at, "a note")), "/api/overview"))
	if o.AsOf != 1e12 || o.Note != "a note" {
		t.Errorf("overview of a copy: %+v", o)
	}
}

// A handler that follows shows what the writer has done until the request, or says why not.
func TestHandler_Follow(t *testing.T) {
	mem := vfs.NewMem()
	db, err := shale.Open("db", &shale.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ro, err := shale.Open("db", &shale.Options{FS: mem, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	h, rare := Handler(ro, Follow(0, "a note")), Handler(ro, Follow(time.Hour, ""))
	_ = get(t, rare, "/api/overview")
	for i := range uint64(4) {
		if o := decode[overview](t, get(t, rare, "/api/overview")); i > 0 && o.Entries != i {
			t.Errorf("an Advance an hour early: %+v", o)
		}
		if err := db.Put(fmt.Append(nil, i), nil); err != nil {
			t.Fatal(err)
		}
		begin := time.Now().UnixMilli()
		if o := decode[overview](t, get(t, h, "/api/overview")); o.Entries != i+1 || o.AsOf < begin || o.Note != "a note" {
			t.Errorf("overview after %d writes: %+v", i+1, o)
		}
	}
	if err := mem.Rename("db", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if o := decode[overview](t, get(t, h, "/api/overview")); o.Entries != 4 || !strings.Contains(o.Note, "could not be read") || !strings.Contains(o.Note, "a note") {
		t.Errorf("overview of a store that is gone: %+v", o)
	}
	if err := mem.Rename("elsewhere", "db"); err != nil {
		t.Fatal(err)
	}
	// A checkpoint is put in the place of the store, and written.
	if err := errors.Join(db.Checkpoint("backup"), db.Put([]byte("lost"), nil)); err != nil {
		t.Fatal(err)
	}
	if o := decode[overview](t, get(t, h, "/api/overview")); o.Entries != 5 || o.Note != "a note" {
		t.Errorf("overview after another write: %+v", o)
	}
	if err := errors.Join(db.Close(), mem.Rename("db", "gone"), mem.Rename("backup", "db")); err != nil {
		t.Fatal(err)
	}
	again, err := shale.Open("db", &shale.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for i := range 3 {
		if err := again.Put(fmt.Append(nil, "new", i), nil); err != nil {
			t.Fatal(err)
		}
		if o := decode[overview](t, get(t, h, "/api/overview")); o.Entries != 5 || !strings.Contains(o.Note, "the directory holds another store now") {
			t.Errorf("overview of a store that was restored: %+v", o)
		}
	}
}

func TestHandler_ClosedStore(t *testing.T) {
	db := openStore(t)
	h := Handler(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/?format=json", "/metrics", "/tree.svg", "/api/overview", "/api/explain?key=k", "/api/"} {
		if r := ask(t, h, http.MethodGet, target); r.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s of a closed store: %s", target, r.Status)
		}
	}
	get(t, h, "/") // the page itself says so
}

// The panels of transactions and of values that expire, and the explanation of such a value.
func TestPanels_TransactionsAndExpiry(t *testing.T) {
	var ms atomic.Int64
	ms.Store(time.Now().UnixMilli())
	clock := func() time.Time { return time.UnixMilli(ms.Load()) }
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), Shipping: shale.ShippingOptions{Clock: clock}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := Handler(db)
	if x := decode[txnUse](t, get(t, h, "/api/transactions")); x != (txnUse{}) {
		t.Errorf("transactions of a new store: %+v", x)
	}
	if x := decode[expiryUse](t, get(t, h, "/api/expiry")); x != (expiryUse{}) {
		t.Errorf("expiry of a new store: %+v", x)
	}
	lost, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lost.Has([]byte("a")); err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *shale.Txn) error {
		return errors.Join(tx.PutTTL([]byte("a"), nil, time.Hour), tx.PutTTL([]byte("b"), nil, time.Second), tx.Put([]byte("c"), nil))
	})
	if err := errors.Join(err, db.Flush(t.Context()), lost.Put([]byte("a"), nil)); err != nil {
		t.Fatal(err)
	}
	if x := decode[txnUse](t, get(t, h, "/api/transactions")); x.Open != 1 || x.OldestSnapshotSeconds <= 0 {
		t.Errorf("with a transaction open: %+v", x)
	}
	if err := lost.Commit(t.Context()); !errors.Is(err, shale.ErrConflict) {
		t.Fatalf("Commit: %v", err)
	}
	s, err := db.Snapshot() // for it nothing is over, so no compaction drops anything
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ms.Add(time.Minute.Milliseconds())
	if has, err := db.Has([]byte("b")); has || err != nil {
		t.Fatal(has, err)
	}
	if x := decode[txnUse](t, get(t, h, "/api/transactions")); x.Commits != 1 || x.Conflicts != 1 || x.Tries != 2 || x.Open != 0 {
		t.Errorf("transactions: %+v", x)
	}
	if x := decode[expiryUse](t, get(t, h, "/api/expiry")); x != (expiryUse{Expiring: 2, Entries: 3, Met: 1, Misses: 2}) {
		t.Errorf("expiry: %+v", x)
	}
	if l := decode[filterUse](t, get(t, h, "/api/filters")).Levels; len(l) != 1 || l[0].Expiring != 2 {
		t.Errorf("levels: %+v", l)
	}
	for key, verdict := range map[string]string{"a": "found", "b": "expired"} {
		steps := decode[explanation](t, get(t, h, "/api/explain?key="+key)).Steps
		if s := steps[len(steps)-1]; s.Verdict != verdict || (s.Expires > ms.Load()) != (key == "a") {
			t.Errorf("explain %s: %+v", key, s)
		}
	}
}
