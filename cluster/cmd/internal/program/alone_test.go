package program

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// alone starts a server that is in no group.
func alone(t testing.TB, dir string, args ...string) *running {
	t.Helper()
	return start(t, append([]string{dir, "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
}

// A server alone keeps what it has acknowledged, with each --sync, and becomes the first member of a group.
func TestAlone_Life(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "a")
	for _, sync := range []string{syncAlways, syncEverysec, syncNo} {
		r := alone(t, dir, "--sync", sync)
		mustNil(t, dial(t, r.addr).Set(ctx, sync, "v", 0).Err())
		if status := r.stop(); status != done {
			t.Fatalf("--sync %s: status %d, %s", sync, status, r.notes)
		}
	}
	if _, notes, status := run(ctx, "serve", dir, "--id", "a", "--bootstrap"); status != failed || !strings.Contains(notes, "shaled seed "+dir) {
		t.Fatalf("a member from the folder of a server alone: status %d, %s", status, notes)
	}
	if out := must(t, "seed", dir, "--id", "a"); !strings.Contains(out, "is member a of a new group") {
		t.Errorf("seed prints %q", out)
	}
	if _, err := os.Stat(filepath.Join(dir, aloneStore)); err == nil {
		t.Error("seed has left the store")
	}
	if _, notes, status := run(ctx, "seed", dir, "--id", "a"); status != failed || !strings.Contains(notes, "not that of a server alone") {
		t.Errorf("seed again: status %d, %s", status, notes)
	}
	if _, notes, status := run(ctx, "serve", dir); status != failed || !strings.Contains(notes, "name the member with --id") {
		t.Errorf("a server alone from the folder of a member: status %d, %s", status, notes)
	}
	r := start(t, dir, "--id", "a", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	if got, err := dial(t, r.addr).MGet(ctx, syncAlways, syncEverysec, syncNo).Result(); err != nil || got[0] != "v" || got[1] != "v" || got[2] != "v" {
		t.Errorf("the member has %v, %v", got, err)
	}
}

// The pages and INFO of a server alone show its store and nothing of a group.
func TestAlone_Pages(t *testing.T) {
	t.Parallel()
	r := alone(t, t.TempDir())
	at := "http://" + r.http
	for path, want := range map[string]string{"/health": `{"ok":true}`, "/metrics": "shale_writable 1", "/store/": "<html", "/": "<html"} {
		if status, body := get(t, "GET", at+path); status != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "shaled_term") {
			t.Errorf("%s: %d, %.200q", path, status, body)
		}
	}
	if status, _ := get(t, "GET", at+"/members"); status != http.StatusNotFound {
		t.Errorf("/members: %d", status)
	}
	info, err := dial(t, r.addr).Info(t.Context()).Result()
	if err != nil || !strings.Contains(info, "role:master") || strings.Contains(info, "# Group") {
		t.Errorf("INFO: %v, %q", err, info)
	}
	if err := dial(t, r.addr).ClusterSlots(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "cluster support disabled") {
		t.Errorf("CLUSTER SLOTS: %v", err)
	}
}

// A backup of a server alone becomes a server alone again, or a group.
func TestAlone_Backup(t *testing.T) {
	t.Parallel()
	ctx, bucket := t.Context(), filepath.Join(t.TempDir(), "bucket")
	mustNil(t, os.MkdirAll(bucket, 0o777))
	r := alone(t, t.TempDir(), "--backup", bucket)
	mustNil(t, dial(t, r.addr).Set(ctx, "k", "v", 0).Err())
	backedUp(t, r)
	r.stop()
	_, list, _ := run(ctx, "restore", bucket, filepath.Join(t.TempDir(), "x"))
	_, name, found := strings.Cut(strings.Split(list, "\n")[1], filepath.Join(bucket, aloneName))
	if !found {
		t.Fatalf("the list of backups is %q", list)
	}
	from, _, _ := strings.Cut(filepath.Join(bucket, aloneName)+name, " ")
	for _, id := range [][]string{nil, {"--id", "a"}} {
		dir := filepath.Join(t.TempDir(), "restored")
		must(t, append([]string{"restore", from, dir}, id...)...)
		args := append([]string{dir, "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0"}, id...)
		if id != nil {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		r := start(t, args...)
		if got, err := dial(t, r.addr).Get(ctx, "k").Result(); got != "v" || err != nil {
			t.Errorf("restored with %q: %q, %v", id, got, err)
		}
	}
}

// A store that something else has written is refused when a server alone starts, and by each command of a group.
func TestServe_OtherLayout(t *testing.T) {
	t.Parallel()
	const refused = "this store was not written by this shaled"
	dir := t.TempDir()
	store := filepath.Join(dir, aloneStore)
	db, err := shale.Open(store, nil)
	mustNil(t, err)
	mustNil(t, db.Put([]byte("greeting"), []byte("hello")))
	mustNil(t, db.Close())
	if _, notes, status := run(t.Context(), "serve", dir, "--addr", "127.0.0.1:0", "--http", "none"); status != failed || !strings.Contains(notes, refused) {
		t.Errorf("alone: status %d, %s", status, notes)
	}
	group := filepath.Join(t.TempDir(), "group")
	mustNil(t, cluster.Seed(group, store, &cluster.Options{ID: "a"}))
	r := start(t, group, "--id", "a", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "none")
	if err := dial(t, r.addr).Get(t.Context(), "greeting").Err(); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("in a group: %v", err)
	}
}
