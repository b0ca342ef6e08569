package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/remote/s3/s3test"
)

// solo returns the options of a member that is a group by itself, with a backup.
func solo(dir, bucket string) []string {
	return []string{dir, "--id", "a", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backup", bucket}
}

// backedUp waits until the backup of a member has all writes.
func backedUp(t *testing.T, r *running) {
	t.Helper()
	testenv.WaitFor(t, "the backup has all writes", func() bool { return r.backupLine() == "has all writes" })
}

// bucket returns the bucket of a member's state.
func (r *running) bucket() string {
	return r.backups.now.Load().is.Load().to.String()
}

// restored restores the only backup in a bucket as a plain store, and returns its value of key.
func restored(t *testing.T, bucket, key string) string {
	t.Helper()
	at, err := s3.ParsePlace(bucket)
	mustNil(t, err)
	below, err := storesBelow(t.Context(), at)
	if err != nil || len(below) != 1 {
		t.Fatalf("the bucket has %q, %v", below, err)
	}
	return storeIn(t, below[0].String(), key)
}

// storeIn restores a store from its bucket, a folder, and returns its value of key.
func storeIn(t *testing.T, bucket, key string) string {
	t.Helper()
	b, err := remote.NewDir(nil, bucket)
	mustNil(t, err)
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := remote.Restore(t.Context(), b, dir, remote.At{}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := shale.Open(dir, nil)
	mustNil(t, err)
	defer db.Close()
	value, err := db.Get([]byte("k" + key))
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(string(value), "s") // of kind string
}

// away puts a file in the place of a bucket, until back is called.
func away(t *testing.T, bucket string) (back func()) {
	t.Helper()
	must := func(err error) {
		mustNil(t, err)
	}
	must(os.Rename(bucket, bucket+".away"))
	must(os.WriteFile(bucket, nil, 0o600))
	return func() {
		must(os.Remove(bucket))
		must(os.Rename(bucket+".away", bucket))
	}
}

// A member's writes are in the bucket soon, also those of later starts, and those of a start at which the bucket was
// away, as soon as it is back: the member does not wait for it, and needs no other start.
func TestBackup_Lives(t *testing.T) {
	t.Parallel()
	dir, bucket := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "bucket")
	ctx := t.Context()
	lives := 5
	if testing.Short() {
		lives = 4
	}
	for life := range lives {
		args := solo(dir, bucket)
		if life == 0 {
			args = append(args, "--bootstrap")
		}
		var back func()
		if life == 2 {
			back = away(t, bucket)
		}
		r := start(t, args...)
		key := fmt.Sprint("life", life)
		mustNil(t, dial(t, r.addr).Set(ctx, key, life, 0).Err())
		if back != nil {
			if line := r.backupLine(); !strings.HasPrefix(line, "not yet: ") {
				t.Errorf("without a bucket: %q", line)
			}
			testenv.WaitFor(t, "the log says so", func() bool { return strings.Contains(r.notes.String(), "there is none yet, and it is tried again") })
			if _, metrics := get(t, "GET", "http://"+r.http+"/metrics"); !strings.Contains(metrics, "\nshaled_backup_up 0\n") || !strings.Contains(metrics, "\nshaled_backup_kept_bytes ") {
				t.Error("the metrics do not show that there is no backup")
			}
			back()
		}
		backedUp(t, r)
		if _, metrics := get(t, "GET", "http://"+r.http+"/metrics"); !strings.Contains(metrics, "\nshaled_backup_up 1\n") {
			t.Error("the metrics do not show that there is a backup")
		}
		if status := r.stop(); status != done {
			t.Fatalf("status %d: %s", status, r.notes)
		}
		for i := range life + 1 {
			if got := restored(t, bucket, fmt.Sprint("life", i)); got != fmt.Sprint(i) {
				t.Errorf("after life %d the backup has %q for that of life %d", life, got, i)
			}
		}
	}
}

// If the bucket refuses the state's folder, as it may after a crash of a start without the bucket, the state is
// backed up again, to another bucket, which later starts go on with.
func TestBackup_Refused(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes several lives of a member")
	}
	dir, bucket := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "bucket")
	ctx := t.Context()
	var old []byte
	for life := range 4 {
		args := solo(dir, bucket)
		if life == 0 {
			args = append(args, "--bootstrap")
		}
		r := start(t, args...)
		mustNil(t, dial(t, r.addr).Set(ctx, fmt.Sprint("life", life), life, 0).Err())
		backedUp(t, r)
		want := "state-1"
		if life >= 2 {
			want = "state-1-2"
		}
		if got := filepath.Base(r.bucket()); got != want {
			t.Errorf("life %d is backed up to %s, want %s: %s", life, got, want, r.notes)
		}
		if status := r.stop(); status != done {
			t.Fatalf("status %d: %s", status, r.notes)
		}
		notes := filepath.Join(dir, "state-1", "REMOTE")
		data, err := os.ReadFile(notes)
		mustNil(t, err)
		if life == 0 {
			old = data
		}
		if life == 1 { // the folder knows of an older step than the bucket has
			mustNil(t, os.WriteFile(notes, old, 0o600))
		}
	}
	at, err := s3.ParsePlace(bucket)
	mustNil(t, err)
	below, err := storesBelow(ctx, at)
	if err != nil || len(below) != 2 {
		t.Fatalf("the bucket has %q, %v", below, err)
	}
	b, err := remote.NewDir(nil, below[1].Dir)
	mustNil(t, err)
	store := filepath.Join(t.TempDir(), "restored")
	if _, err := remote.Restore(ctx, b, store, remote.At{}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := shale.Open(store, nil)
	mustNil(t, err)
	defer db.Close()
	for life := range 4 {
		if has, err := db.Has([]byte(fmt.Sprint("klife", life))); err != nil || !has {
			t.Errorf("the second backup has life %d: %v, %v", life, has, err)
		}
	}
}

// A bucket that is away while a member runs does not hold up its writes, and gets all of them later.
func TestBackup_BucketAway(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes several lives of a member")
	}
	dir, bucket := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "bucket")
	ctx := t.Context()
	r := start(t, append(solo(dir, bucket), "--bootstrap")...)
	client := dial(t, r.addr)
	mustNil(t, client.Set(ctx, "before", 1, 0).Err())
	backedUp(t, r)
	back := away(t, bucket)
	for i := range 20 {
		mustNil(t, client.Set(ctx, fmt.Sprint("away", i), i, 0).Err())
	}
	testenv.WaitFor(t, "the member sees that the bucket is away", func() bool { return strings.HasPrefix(r.backupLine(), "the bucket is away") })
	begin := time.Now()
	if err := client.Set(ctx, "while", 1, 0).Err(); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("a write without the bucket: %v, after %v", err, time.Since(begin))
	}
	back()
	backedUp(t, r)
	r.stop()
	if got := restored(t, bucket, "while"); got != "1" {
		t.Errorf("the backup has %q", got)
	}
}

// Another program that takes a member's bucket over, or a rule that removes its newest objects, ends that bucket and not the
// member, which begins another one by itself.
func TestBackup_TakenOver(t *testing.T) {
	t.Parallel()
	dir, bucket := filepath.Join(t.TempDir(), "A.B"), filepath.Join(t.TempDir(), "bucket")
	args := solo(dir, bucket)
	args[2] = "A.B" // a name of a member that no object can have
	r := start(t, append(args, "--bootstrap")...)
	client := dial(t, r.addr)
	mustNil(t, client.Set(t.Context(), "before", 1, 0).Err())
	backedUp(t, r)
	first := r.bucket()
	b, err := remote.NewDir(nil, first)
	mustNil(t, err)
	stolen := filepath.Join(t.TempDir(), "stolen")
	if _, err := remote.Restore(t.Context(), b, stolen, remote.At{}, nil); err != nil {
		t.Fatal(err)
	}
	thief, err := remote.Open(t.Context(), stolen, b, nil)
	mustNil(t, err)
	defer thief.Close()
	mustNil(t, client.Set(t.Context(), "after", 2, 0).Err())
	testenv.WaitFor(t, "another bucket", func() bool { return r.bucket() != first })
	backedUp(t, r)
	mustNil(t, client.Set(t.Context(), "later", 3, 0).Err())
	backedUp(t, r)
	if _, metrics := get(t, "GET", "http://"+r.http+"/metrics"); !strings.Contains(metrics, "\nshaled_backup_ended_total 1\n") {
		t.Error("the metrics do not show that a bucket was taken over")
	}
	second := r.bucket()
	r.stop()
	if got := storeIn(t, second, "later"); got != "3" || filepath.Base(second) != "state-1-2" || !strings.HasPrefix(filepath.Base(filepath.Dir(second)), "a.b-") {
		t.Errorf("the second bucket is %s, and has %q", second, got)
	}
}

// A backup that can't work ends the first start that asks for it. Later ones go on without.
func TestBackup_WrongAtFirst(t *testing.T) {
	dir, bucket := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "bucket")
	mustNil(t, os.WriteFile(bucket, nil, 0o600))
	args := append(solo(dir, bucket), "--bootstrap")
	if _, notes, status := run(t.Context(), append([]string{"serve"}, args...)...); status != failed || !strings.Contains(notes, "--backup: ") {
		t.Errorf("with a file in the place of the bucket: status %d, %s", status, notes)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	args[len(args)-2] = "s3+http://127.0.0.1:1/backups"
	if _, notes, status := run(t.Context(), append([]string{"serve"}, args...)...); status != failed || !strings.Contains(notes, "no credentials") {
		t.Errorf("without credentials: status %d, %s", status, notes)
	}
}

// Whatever is wrong with a backup's name or a point is said before anything is made.
func TestRestore_BadWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"restore", "x"}, "usage: shaled restore BUCKET DIR [--id ID]"},
		{[]string{"restore", filepath.Join(dir, "none"), filepath.Join(dir, "y"), "--id", "a"}, "there is no bucket"},
		{[]string{"restore", dir, filepath.Join(dir, "y"), "--id", "a"}, "there is no backup in"},
		{[]string{"restore", "ftp://x/y", filepath.Join(dir, "y"), "--id", "a"}, "ftp://x/y is not a bucket"},
		{[]string{"restore", dir, filepath.Join(dir, "y"), "--id", "a", "--at", "yesterday"}, "--at yesterday is not a point"},
		{[]string{"serve", filepath.Join(dir, "y"), "--id", "a", "--backup", "ftp://x/y"}, "--backup: ftp://x/y is not a bucket"},
	} {
		_, notes, status := run(t.Context(), test.args...)
		if status != failed || !strings.Contains(notes, test.want) {
			t.Errorf("%q: status %d, %q; want %q", test.args, status, notes, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "y")); err == nil {
		t.Error("the folder was made")
	}
}

// From a member's backup a new group can be made, as it is now or as it was at a time. Other members join it, and it
// takes writes, which are backed up again.
func TestRestore_Group(t *testing.T) {
	t.Parallel()
	bucket := filepath.Join(t.TempDir(), "bucket")
	group := three(t, "--backup", bucket)
	ctx := t.Context()
	client := dial(t, group[1].addr)
	for i := range 50 {
		mustNil(t, client.Set(ctx, fmt.Sprint("key", i), "first", 0).Err())
	}
	testenv.WaitFor(t, "the last write is on member a", func() bool { return group[0].node.Stats().Applied == group[1].node.Stats().Applied })
	backedUp(t, group[0])
	then := time.Now().Add(time.Millisecond)
	time.Sleep(1100 * time.Millisecond) // times in a bucket are those of shipments
	mustNil(t, client.Set(ctx, "key7", "second", 0).Err())
	testenv.WaitFor(t, "the last write is on member a", func() bool {
		return dial(t, group[0].addr).Get(ctx, "key7").Val() == "second"
	})
	backedUp(t, group[0])
	for _, r := range group {
		r.stop()
	}
	dir := t.TempDir()
	_, notes, status := run(ctx, "restore", bucket, filepath.Join(dir, "x"), "--id", "x")
	if status != failed || strings.Count(notes, "state-1") != 3 {
		t.Fatalf("restore of the bucket above: status %d, %s", status, notes)
	}
	from := group[0].backups.at.Below(group[0].backups.name, "state-1").String()
	for name, test := range map[string]struct {
		at   []string
		want string
	}{"now": {nil, "second"}, "then": {[]string{"--at", then.Format(time.RFC3339Nano)}, "first"}} {
		if testing.Short() && test.at == nil {
			continue
		}
		folder := filepath.Join(dir, name)
		out := must(t, append([]string{"restore", from, folder, "--id", "x"}, test.at...)...)
		if !strings.Contains(out, "is member x of a new group") {
			t.Errorf("restore: %s", out)
		}
		if _, err := os.Stat(filepath.Join(folder, restoredStore)); err == nil {
			t.Error("the restored store is left over")
		}
		if _, notes, status := run(ctx, "restore", from, folder, "--id", "x"); status != failed || !strings.Contains(notes, "is not empty, it has") {
			t.Errorf("restore into a member's folder: %d, %s", status, notes)
		}
		next := filepath.Join(dir, name+"-bucket")
		x := start(t, folder, "--id", "x", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backup", next)
		if got, err := dial(t, x.addr).Get(ctx, "key7").Result(); err != nil || got != test.want {
			t.Errorf("%s: key7 = %q, %v; want %q", name, got, err, test.want)
		}
		mustNil(t, dial(t, x.addr).Set(ctx, "new", name, 0).Err())
		y := start(t, filepath.Join(dir, name+"-y"), "--id", "y", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--join", x.node.Address(), "--backup", next+"-y")
		waitVoters(t, x, 2)
		if n, err := dial(t, y.addr).DBSize(ctx).Result(); err != nil || n != 51 {
			t.Errorf("%s: member y has %d keys, %v", name, n, err)
		}
		backedUp(t, x)
		// Member y has got the state as a snapshot, and so has begun a second one.
		backedUp(t, y)
		if to := y.bucket(); filepath.Base(to) != "state-2" {
			t.Errorf("member y is backed up to %s: %s", to, y.notes)
		}
		y.stop()
		x.stop()
		if got := restored(t, next, "new"); got != name {
			t.Errorf("the backup of the new group has %q", got)
		}
	}
}

// A bucket on a server that speaks S3 does as well as a folder, for the backup and for restoring it.
func TestBackup_S3(t *testing.T) {
	if testing.Short() {
		t.Skip("it may have to build a server")
	}
	c := s3test.Start(t).Make(t, "backups")
	t.Setenv("AWS_ACCESS_KEY_ID", c.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", c.SecretKey)
	c.Prefix = "groups/eu"
	dir := t.TempDir()
	r := start(t, append(solo(filepath.Join(dir, "a"), c.String()), "--bootstrap")...)
	mustNil(t, dial(t, r.addr).Set(t.Context(), "k", "v", 0).Err())
	backedUp(t, r)
	to := r.bucket()
	r.stop()
	folder := filepath.Join(dir, "new")
	_, notes, status := run(t.Context(), "restore", c.String(), folder, "--id", "b")
	_, list, _ := strings.Cut(notes, "choose one of")
	from, about, _ := strings.Cut(strings.TrimSpace(list), "  ")
	if !strings.HasPrefix(about, "last written "+time.Now().Format("2006-01-02 ")) || !strings.HasSuffix(about, "B") {
		t.Errorf("the state is listed with %q", about)
	}
	if status != failed || from != to {
		t.Fatalf("restore of the bucket above: status %d, %s; want %s", status, notes, to)
	}
	must(t, "restore", from, folder, "--id", "b")
	b := start(t, folder, "--id", "b", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "none")
	if got, err := dial(t, b.addr).Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("GET in the new group = %q, %v", got, err)
	}
}
