package program

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/server"
)

// Members are asked where clients find them once a second, however many writes are refused meanwhile.
func TestAddresses_AskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a addresses
		asked := 0
		ask := func() map[string]string {
			asked++
			return map[string]string{"a": fmt.Sprint("host:", asked)}
		}
		for _, step := range []struct {
			id, addr string
			wait     time.Duration
		}{{"a", "host:1", 0}, {"b", "", 0}, {"a", "host:1", 900 * time.Millisecond}, {"a", "host:2", 100 * time.Millisecond}, {"a", "host:2", 0}} {
			time.Sleep(step.wait)
			if got := a.of(step.id, ask); got != step.addr {
				t.Errorf("%v later member %s is at %q, want %q", step.wait, step.id, got, step.addr)
			}
		}
	})
}

// get asks for a page.
func get(t *testing.T, method, url string, change ...func(*http.Request)) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	mustNil(t, err)
	for _, change := range change {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	mustNil(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	mustNil(t, err)
	return answer.StatusCode, string(data)
}

// Every page is there, on the leader and on others, and the metrics are in the form that Prometheus reads, each name
// declared once.
func TestPages(t *testing.T) {
	t.Parallel()
	group := three(t)
	mustNil(t, dial(t, group[1].addr).Set(t.Context(), "a", "<b>", 0).Err())
	for _, r := range group {
		var wrong []string
		for range 50 { // on a busy machine there may be no leader for a while
			if wrong = pagesWrong(t, r); len(wrong) == 0 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		for _, w := range wrong {
			t.Error(w)
		}
	}
}

// pagesWrong returns what is wrong with the pages of a member.
func pagesWrong(t *testing.T, r *running) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	at := "http://" + r.http
	for path, want := range map[string]string{
		"/": "Member " + r.config.ID, "/style.css": "--line", "/health": `"ok":true`, "/members": `"leader":true`, "/store/": "<html",
		"/store/api/": "[", "/store/?format=json": "{",
	} {
		if status, body := get(t, "GET", at+path); status != http.StatusOK || !strings.Contains(body, want) {
			note("%s: %d, %.200q", path, status, body)
		}
	}
	if status, _ := get(t, "GET", at+"/what"); status != http.StatusNotFound {
		note("an unknown page: %d", status)
	}
	_, text := get(t, "GET", at+"/metrics")
	declared := make(map[string]bool)
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			if declared[name] {
				note("%s is declared twice", name)
			}
			declared[name] = true
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		name, _, _ := strings.Cut(line[:at], "{")
		if err != nil || !declared[name] {
			note("line %q: %v, declared %v", line, err, declared[name])
		}
		values[line[:at]] = v
	}
	for name, want := range map[string]float64{"shaled_members": 3, "shaled_voters": 3, "shaled_has_leader": 1, "shaled_failed": 0, "shale_writable": 1} {
		if values[name] != want {
			note("%s is %v, want %v", name, values[name], want)
		}
	}
	return wrong
}

// A web page of another site can neither read nor change anything.
func TestPages_OtherSites(t *testing.T) {
	t.Parallel()
	r := start(t, filepath.Join(t.TempDir(), "a"), "--id", "a", "--bootstrap", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	at := "http://" + r.http
	for name, change := range map[string]func(*http.Request){
		"another name":   func(r *http.Request) { r.Host = "evil.example" },
		"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a form by POST": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain"); r.Method = "POST" },
	} {
		if status, body := get(t, "GET", at+"/members", change); status < 400 || strings.Contains(body, "address") {
			t.Errorf("%s: %d, %q", name, status, body)
		}
	}
	if status, _ := get(t, "GET", "http://localhost"+r.http[strings.LastIndexByte(r.http, ':'):]+"/"); status != http.StatusOK {
		t.Errorf("localhost: %d", status)
	}
}

// With a password, only /health is there for all.
func TestPages_Password(t *testing.T) {
	t.Parallel()
	password := filepath.Join(t.TempDir(), "password")
	mustNil(t, os.WriteFile(password, []byte("secret"), 0o600))
	r := start(t, filepath.Join(t.TempDir(), "a"), "--id", "a", "--bootstrap", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--password-file", password)
	waitVoters(t, r, 1)
	leader(t, []*running{r})
	at := "http://" + r.http
	for _, path := range []string{"/", "/metrics", "/members", "/store/", "/style.css"} {
		if status, _ := get(t, "GET", at+path); status != http.StatusUnauthorized {
			t.Errorf("%s without the password: %d", path, status)
		}
		if status, _ := get(t, "GET", at+path, func(r *http.Request) { r.SetBasicAuth("x", "secre") }); status != http.StatusUnauthorized {
			t.Errorf("%s with a wrong password: %d", path, status)
		}
		if status, _ := get(t, "GET", at+path, func(r *http.Request) { r.SetBasicAuth("x", "secret") }); status != http.StatusOK {
			t.Errorf("%s with the password: %d", path, status)
		}
	}
	if status, _ := get(t, "DELETE", at+"/members/a"); status != http.StatusUnauthorized {
		t.Errorf("DELETE without the password: %d", status)
	}
	if status, body := get(t, "GET", at+"/health"); status != http.StatusOK {
		t.Errorf("/health: %d, %s", status, body)
	}
}

// Changes of the group need a password of their own, unless they come from this machine.
func TestPages_Admin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, given, admin string
		unprotected, want  bool
	}{
		{"127.0.0.1:5", "", "", false, true}, {"[::1]:5", "data", "root", false, true}, {"10.0.0.1:5", "data", "", false, false},
		{"10.0.0.1:5", "data", "root", false, false}, {"10.0.0.1:5", "root", "root", false, true}, {"10.0.0.1:5", "", "", true, true},
		{"10.0.0.1:5", "data", "root", true, false}, {"10.0.0.1:5", "", "", false, false},
	} {
		m := &member{config: config{unprotected: test.unprotected}}
		m.admin.Store(server.NewPassword(test.admin))
		r := httptest.NewRequest("DELETE", "/members/b", nil)
		r.RemoteAddr = test.from
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("any", test.given)
		did := false
		w := httptest.NewRecorder()
		m.change(func(*http.Request, changeRequest) error {
			did = true
			return errors.New("enough")
		})(w, r)
		if did != test.want || !did && w.Code != http.StatusForbidden {
			t.Errorf("%+v: done %v, status %d", test, did, w.Code)
		}
	}
}
