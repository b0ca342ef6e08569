package program

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/internal/testenv"
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

// Whoever has the password for reading reads and does not write, and no page lets it in. A new one counts without another start.
func TestAlone_ReadPassword(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	write, read := filepath.Join(dir, "write"), filepath.Join(dir, "read")
	mustNil(t, os.WriteFile(write, []byte("secret\n"), 0o600))
	mustNil(t, os.WriteFile(read, []byte("look\n"), 0o600))
	r := alone(t, filepath.Join(dir, "a"), "--password-file", write, "--read-password-file", read)
	as := func(password string) *redis.Client {
		return dial(t, r.addr, func(o *redis.Options) { o.Password = password })
	}
	mustNil(t, as("secret").Set(ctx, "a", "1", 0).Err())
	if got, err := as("look").Get(ctx, "a").Result(); got != "1" || err != nil {
		t.Errorf("the reader gets %q, %v", got, err)
	}
	if err := as("look").Set(ctx, "a", "2", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM ") {
		t.Errorf("the reader writes: %v", err)
	}
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.http+"/metrics", nil)
	mustNil(t, err)
	request.SetBasicAuth("any", "look")
	answer, err := http.DefaultClient.Do(request)
	mustNil(t, err)
	mustNil(t, answer.Body.Close())
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a page answers the reader with %d", answer.StatusCode)
	}
	mustNil(t, os.WriteFile(read, []byte("peep\n"), 0o600))
	testenv.WaitFor(t, "the new password to count", func() bool { return as("peep").Get(ctx, "a").Err() == nil })
	if err := as("look").Get(ctx, "a").Err(); err == nil {
		t.Error("the old password is still one")
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
	if err := dial(t, r.addr).Do(t.Context(), "CLUSTER", "SLOTS").Err(); err == nil || !strings.Contains(err.Error(), "cluster support disabled") {
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

// A server alone that is killed again and again has all strings and all items of filters that it has acknowledged, and no
// half of a pipeline's transaction.
func TestAlone_KillMinus9(t *testing.T) {
	t.Parallel()
	dir := testenv.QuickDir(t)
	for _, when := range []string{syncAlways, syncEverysec, syncNo} {
		args := []string{filepath.Join(dir, when), "--sync", when, "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0"}
		var acknowledged [3]int
		for range 3 {
			c := startChild(t, args...)
			var clients sync.WaitGroup
			var enough atomic.Int64
			for i := range acknowledged {
				client := dial(t, c.addr)
				clients.Go(func() {
					for {
						n := acknowledged[i]
						_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
							for j := range 5 {
								p.BFAdd(t.Context(), fmt.Sprint("f", i%2), fmt.Sprint(i, ":", n+j))
								p.Set(t.Context(), fmt.Sprint(i, ":", n+j), "v", 0)
							}
							return nil
						})
						if err != nil {
							return
						}
						acknowledged[i] += 5
						enough.Add(1)
					}
				})
			}
			testenv.WaitFor(t, "writes", func() bool { return enough.Load() > 30 })
			c.kill()
			clients.Wait()
		}
		client := dial(t, startChild(t, args...).addr)
		for i, n := range acknowledged {
			for j := range n {
				item := fmt.Sprint(i, ":", j)
				value, err := client.Get(t.Context(), item).Result()
				there, err2 := client.BFExists(t.Context(), fmt.Sprint("f", i%2), item).Result()
				if err != nil || err2 != nil || value != "v" || !there {
					t.Fatalf("--sync %s: %s of %d acknowledged: %q, %v, %v, %v", when, item, n, value, there, err, err2)
				}
			}
		}
	}
}

// A filter is the same on all members, whichever of them takes the items, and what is left of it goes.
func TestGroup_Filters(t *testing.T) {
	t.Parallel()
	ctx, group := t.Context(), three(t)
	const items = 100
	var clients sync.WaitGroup
	var isNew atomic.Int64
	for _, r := range group {
		client := dial(t, r.addr)
		clients.Go(func() {
			for n := range items / 10 {
				var batch []any
				for j := range 10 {
					batch = append(batch, 10*n+j)
				}
				added, err := client.BFMAdd(ctx, "f", batch...).Result()
				if err != nil {
					t.Error(err)
					return
				}
				for _, one := range added {
					if one {
						isNew.Add(1)
					}
				}
			}
		})
	}
	clients.Wait()
	for _, r := range group {
		client := dial(t, r.addr)
		if n, err := client.BFCard(ctx, "f").Result(); err != nil || n != isNew.Load() || n > items || n < items*9/10 {
			t.Errorf("member %s: BF.CARD = %d, %v; %d were new", r.config.ID, n, err, isNew.Load())
		}
		for n := range items {
			if there, err := client.BFExists(ctx, "f", n).Result(); err != nil || !there {
				t.Errorf("member %s: item %d: %v, %v", r.config.ID, n, there, err)
			}
		}
	}
}

// Clients of all members count the same, and move money by WATCH: nothing is lost or made.
func TestGroup_Transactions(t *testing.T) {
	t.Parallel()
	ctx, group := t.Context(), three(t)
	mustNil(t, dial(t, group[0].addr).MSet(ctx, "a", 100, "b", 100).Err())
	var clients sync.WaitGroup
	for _, r := range group {
		client := dial(t, r.addr)
		clients.Go(func() {
			for range 20 {
				if err := client.Incr(ctx, "n").Err(); err != nil {
					t.Error(err)
				}
				for moved := false; !moved; {
					err := client.Watch(ctx, func(tx *redis.Tx) error {
						a, err := tx.Get(ctx, "a").Int()
						b, err2 := tx.Get(ctx, "b").Int()
						if err = errors.Join(err, err2); err != nil {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "a", a-1, 0)
							p.Set(ctx, "b", b+1, 0)
							return nil
						})
						return err
					}, "a", "b")
					if err != nil && !errors.Is(err, redis.TxFailedErr) {
						t.Error(err)
						return
					}
					moved = err == nil
				}
			}
		})
	}
	clients.Wait()
	for _, r := range group {
		got, err := dial(t, r.addr).MGet(ctx, "n", "a", "b").Result()
		if err != nil || got[0] != "60" || got[1] != "40" || got[2] != "160" {
			t.Errorf("member %s has %v, %v", r.config.ID, got, err)
		}
	}
}
