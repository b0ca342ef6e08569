package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// No way changes an answer: compare checks each. The figures are those that the head comment is about.
func TestCompare(t *testing.T) {
	const requests, n = 3000, 1000
	u, err := newUsers(t.Context(), t.TempDir()+"/users.sqlite", n)
	if err != nil {
		t.Fatal(err)
	}
	defer u.db.Close()
	ids, err := NewIDs(t.Context(), u.each)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := errors.Join(compare(t.Context(), u, ids, requests, n, &out), outage(ids, requests, n, &out)); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	vain := make(map[string][2]int)
	for _, name := range []string{"no guard", "answers kept a second", "set of all ids", "filter of all ids"} {
		_, row, _ := strings.Cut(out.String(), name)
		var c [2]int
		if _, err := fmt.Sscan(row, &c[0], &c[1]); err != nil {
			t.Fatal(err)
		}
		vain[name] = c
	}
	all, kept, filter := vain["no guard"], vain["answers kept a second"], vain["filter of all ids"]
	if all[0] < requests*8/10 || all[1] < requests*8/10 || kept[0] != all[0] || kept[1] > all[1]/4 || vain["set of all ids"] != [2]int{} || filter[0] > all[0]/30 || filter[1] > all[1]/10 {
		t.Errorf("queries in vain: %v", vain)
	}
	_, text, _ := strings.Cut(out.String(), "the filter denies ")
	var denied, absent, wrong, present, wrongAsked int
	if _, err := fmt.Sscanf(text, "%d of %d users who do not exist, and %d of %d who do.\nA filter of the users who were asked for before denies %d",
		&denied, &absent, &wrong, &present, &wrongAsked); err != nil {
		t.Fatal(err)
	}
	if denied < absent*29/30 || wrong != 0 || wrongAsked == 0 || wrongAsked > present*9/10 || absent+present != requests {
		t.Errorf("denied %d of %d, %d and %d of %d users", denied, absent, wrong, wrongAsked, present)
	}
}

// Answers are kept for their time, errors are not kept, and old answers leave the memory.
func TestCache(t *testing.T) {
	now, asked, broken := time.Unix(0, 0), 0, errors.New("broken")
	answers := map[string]error{"ann": nil, "nobody": sql.ErrNoRows, "down": broken}
	c := newCache(func(_ context.Context, id string) (string, error) {
		asked++
		if err, ok := answers[id]; ok {
			return "profile", err
		}
		return "", sql.ErrNoRows
	}, func() time.Time { return now })
	for _, step := range []struct {
		wait  time.Duration
		id    string
		asked int
	}{
		{0, "ann", 1}, {0, "ann", 0}, {0, "nobody", 1}, {absentFor - 1, "nobody", 0}, {1, "nobody", 1}, {0, "ann", 0},
		{presentFor, "ann", 1}, {0, "down", 1}, {0, "down", 1},
	} {
		now, asked = now.Add(step.wait), 0
		if _, err := c.find(t.Context(), step.id); !errors.Is(err, answers[step.id]) || asked != step.asked {
			t.Errorf("%+v: asked %d times, %v", step, asked, err)
		}
	}
	for i := range 100_000 {
		now = now.Add(absentFor / 100)
		if _, err := c.find(t.Context(), fmt.Sprint("new", i)); !errors.Is(err, sql.ErrNoRows) || len(c.answers) > 1024 {
			t.Fatalf("%d answers are kept after %d questions, %v", len(c.answers), i, err)
		}
	}
}

// The same request of the same client is turned away until the moment is over. Others are not, and none is while
// the store is closed.
func TestRepeats(t *testing.T) {
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(moment time.Duration, method, url, client string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, url, nil)
		r.RemoteAddr = client
		Repeats(db, moment, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		return w.Code
	}
	for i, c := range []struct {
		method, url, client string
		want                int
	}{
		{"GET", "/a?id=1", "192.0.2.1:1", 200}, {"GET", "/a?id=1", "192.0.2.1:2", 429}, {"GET", "/a?id=2", "192.0.2.1:1", 200},
		{"POST", "/a?id=1", "192.0.2.1:1", 200}, {"GET", "/a?id=1", "192.0.2.2:1", 200}, {"GET", "/a?id=1", "@", 200}, {"GET", "/a?id=1", "@", 429},
	} {
		if got := ask(time.Hour, c.method, c.url, c.client); got != c.want {
			t.Errorf("request %d: status %d, want %d", i, got, c.want)
		}
	}
	for tries := 0; ask(time.Millisecond, "GET", "/soon", "@") != 200 || ask(time.Millisecond, "GET", "/soon", "@") != 429; tries++ {
		if tries > 10_000 {
			t.Fatal("a request is never let through again, or never turned away")
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ask(time.Hour, "GET", "/a?id=1", "@"); got != 200 {
		t.Errorf("while the store is closed: status %d", got)
	}
}
