package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/s3/s3test"
)

// run runs the program as main would.
func run(t *testing.T, args ...string) (out, notes string, status int) {
	t.Helper()
	return runIn(t.Context(), args...)
}

func runIn(ctx context.Context, args ...string) (out, notes string, status int) {
	var o, e bytes.Buffer
	status = Run(ctx, Environment{Args: args, Out: &o, Err: &e, Getenv: func(string) string { return "" }})
	return o.String(), e.String(), status
}

// must runs a command that has to succeed, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, notes, status := run(t, args...)
	if status != found {
		t.Fatalf("%q: status %d, %s%s", args, status, out, notes)
	}
	return out
}

// write opens a store, puts keys, and closes it.
func write(t *testing.T, dir string, keys ...string) {
	t.Helper()
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := db.Put([]byte(k), []byte("value of "+k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// keys returns the keys of a store.
func keys(t *testing.T, dir string) string {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // only read
	var all []string
	for e, err := range db.Scan(shale.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Value) != "value of "+string(e.Key) {
			t.Errorf("%s has the value %q", e.Key, e.Value)
		}
		all = append(all, string(e.Key))
	}
	return strings.Join(all, " ")
}

// TestTable checks that the program has a command for each entry of the table that shale shows, and no other.
func TestTable(t *testing.T) {
	for _, entry := range commands {
		out := must(t, "help", entry.Name)
		for _, o := range entry.Options {
			if !strings.Contains(out, "--"+o.Name) {
				t.Errorf("help %s does not have --%s", entry.Name, o.Name)
			}
		}
		if _, notes, status := run(t, entry.Name, "a", "b", "c", "d"); status != failed || !strings.Contains(notes, "usage: "+entry.Name+" "+entry.Words) {
			t.Errorf("%s with too many words: status %d, %s", entry.Name, status, notes)
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"--help"}} {
		out := must(t, args...)
		for _, entry := range commands {
			if !strings.Contains(out, "\n  "+entry.Name+" "+entry.Words+"  ") {
				t.Errorf("%v does not list %s:\n%s", args, entry.Name, out)
			}
		}
		if strings.Contains(out, "Usage:") || !strings.Contains(out, "s3://HOST") || !strings.Contains(out, "exit status") {
			t.Errorf("%v prints\n%s", args, out)
		}
	}
}

// One slash instead of two is a mistake, and not a folder named s3:.
func TestBucket_OneSlash(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"verify", "s3:/foo"}, {"restore", "s3:/foo", "db"}} {
		if _, notes, status := run(t, args...); status != failed || !strings.Contains(notes, "one slash too few") {
			t.Errorf("%v: status %d, %s", args, status, notes)
		}
	}
}

// TestLife does everything with a bucket in a directory.
func TestLife(t *testing.T) {
	t.Chdir(t.TempDir())
	testLife(t, "bucket", "file://bucket", "trial")
}

// TestLife_OnServer does everything with a bucket on a server, with keys from the environment.
func TestLife_OnServer(t *testing.T) {
	c := s3test.Start(t).Make(t, "backups")
	t.Chdir(t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", c.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", c.SecretKey)
	c.Prefix = "hosts/eu"
	bucket := c.String()
	c.Prefix = "trial"
	testLife(t, bucket, bucket, c.String())
}

// testLife ships a store again and again to a bucket, which has two names, restores it to each of its points, and
// compares. It also begins another store with a pinned state.
func testLife(t *testing.T, bucket, same, trial string) {
	write(t, "db", "a", "b")
	if out := must(t, "ship", "--once", "db", bucket); !strings.Contains(out, "1 table, ") || !strings.Contains(out, "all writes are in the bucket") {
		t.Error(out)
	}
	write(t, "db", "c")
	must(t, "ship", "--once", "db", same)
	must(t, "pin", bucket, "before", "--owner", "ann")
	write(t, "db", "d", "e")
	must(t, "ship", "--once", "db", bucket)
	for _, c := range []struct {
		args []string
		keys string
		says string
	}{
		{nil, "a b c d e", "That is all that the bucket has."},
		{[]string{"--at", "seq:2"}, "a b", "Left out, because it is later: "},
		{[]string{"--at", "seq:3"}, "a b c", "restored to sequence number 3"},
		{[]string{"--at", "step:2"}, "a b", "step 2"},
		{[]string{"--pin", "before"}, "a b c", ""},
		{[]string{"--at", "0s"}, "a b c d e", ""},
	} {
		dir := t.TempDir()
		out := must(t, append([]string{"restore", bucket, dir}, c.args...)...)
		if got := keys(t, dir); got != c.keys || !strings.Contains(out, c.says) {
			t.Errorf("%q: %s, want %s; it says %s", c.args, got, c.keys, out)
		}
	}
	if out := must(t, "pins", bucket); !regexp.MustCompile(`(?m)^before\.[0-9a-f]{16}  4 .*unpin  ann$`).MatchString(out) {
		t.Error(out)
	}
	must(t, "restore", bucket, "trial.db", "--pin", "before")
	if got := keys(t, "trial.db"); got != "a b c" {
		t.Errorf("what was restored from the pin has %s", got)
	}
	must(t, "ship", "--once", "trial.db", trial)
	must(t, "unpin", bucket, "before")
	if _, notes, status := run(t, "unpin", bucket, "before"); status != absent || !strings.Contains(notes, "there is no pin before") {
		t.Errorf("status %d, %s", status, notes)
	}
	if out := must(t, "verify", bucket); !strings.Contains(out, "Everything is there") {
		t.Error(out)
	}
	if out := must(t, "verify", "--bucket", bucket, "--deep"); !strings.Contains(out, "Every byte was read. No damage.") {
		t.Error(out)
	}
}

// TestRestore_ImpossiblePoint names commands that work.
func TestRestore_ImpossiblePoint(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a", "b")
	must(t, "ship", "--once", "db", "bucket")
	_, notes, status := run(t, "restore", "bucket", "copy", "--at", "seq:99")
	m := regexp.MustCompile(`shale-remote (restore bucket copy --at step:\d+\+seq:\d+)`).FindStringSubmatch(notes)
	if status != absent || m == nil {
		t.Fatalf("status %d, %s", status, notes)
	}
	must(t, strings.Fields(m[1])...)
	if got := keys(t, "copy"); got != "a b" {
		t.Error(got)
	}
	if _, notes, status := run(t, "restore", "bucket", "early", "--at", "9999h"); status != absent || !strings.Contains(notes, "which begins with step 1, of ") {
		t.Errorf("status %d, %s", status, notes)
	}
}

// TestVerify_Damage has status 1 and names the object.
func TestVerify_Damage(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a", "b")
	must(t, "ship", "--once", "db", "bucket")
	tables, err := filepath.Glob("bucket/t/*/*.sst")
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	data, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	data[10] ^= 1
	if err := os.WriteFile(tables[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(filepath.ToSlash(tables[0]), "bucket/")
	must(t, "verify", "bucket") // the sizes are right
	if out, notes, status := run(t, "verify", "bucket", "--deep"); status != absent || !strings.Contains(out, name) || !strings.Contains(out, "DAMAGED") {
		t.Errorf("status %d, %s%s", status, out, notes)
	}
	if err := os.Remove(tables[0]); err != nil {
		t.Fatal(err)
	}
	if out, notes, status := run(t, "verify", "bucket"); status != absent || !strings.Contains(out, name) {
		t.Errorf("status %d, %s%s", status, out, notes)
	}
	if _, notes, status := run(t, "restore", "bucket", "copy"); status != absent || !strings.Contains(notes, name) {
		t.Errorf("status %d, %s", status, notes)
	}
}

// TestRestore_DamagedTable damages the table of the newest step. The logs have what was in it. If a segment of these is
// damaged too, the command says which sequence numbers are left out, and --salvage gets what is whole.
func TestRestore_DamagedTable(t *testing.T) {
	t.Chdir(t.TempDir())
	b, err := remote.NewDir(nil, "bucket")
	if err != nil {
		t.Fatal(err)
	}
	s, err := remote.Open(t.Context(), "db", b, &remote.Options{Ship: -1, Publish: -1, Flush: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b", "c", "d"} {
		if err := s.DB().Put([]byte(k), []byte("value of "+k)); err != nil {
			t.Fatal(err)
		}
		if k == "c" {
			err = s.DB().Flush(t.Context())
		}
		if err = errors.Join(err, s.Publish(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	restored := func(want string, wantStatus int, texts []string, args ...string) {
		t.Helper()
		out, notes, status := run(t, append([]string{"restore", "bucket", "copy"}, args...)...)
		for _, text := range texts {
			if !strings.Contains(out+notes, text) || status != wantStatus {
				t.Errorf("%q: status %d, without %q: %s%s", args, status, text, out, notes)
			}
		}
		if want != "" && keys(t, "copy") != want {
			t.Errorf("%q: %s", args, keys(t, "copy"))
		}
		if err := os.RemoveAll("copy"); err != nil {
			t.Fatal(err)
		}
	}
	spoil := func(pattern string, nth int) (name string) {
		t.Helper()
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) <= nth {
			t.Fatal(files, err)
		}
		data, err := os.ReadFile(files[nth])
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(files[nth], data, 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(filepath.ToSlash(files[nth]), "bucket/")
	}
	table := spoil("bucket/t/*/*.sst", 0)
	if out, _, status := run(t, "verify", "bucket", "--deep"); status != absent || !strings.Contains(out, "The newest point that can be restored: sequence number 4, ") || !strings.Contains(out, "ago") {
		t.Errorf("status %d, %s", status, out)
	}
	restored("a b c d", found, []string{table, "lacks nothing"})
	restored("a b c d", found, []string{table}, "--at", "seq:4")
	restored("a b", found, nil, "--at", "seq:2")
	segment := spoil("bucket/w/*1/*", 1)
	if out, _, _ := run(t, "verify", "bucket", "--deep"); !strings.Contains(out, "can be restored: sequence number 1, ") {
		t.Error(out)
	}
	restored("a", absent, []string{table, segment, "Sequence numbers 2 to 4 are left out"})
	restored("", absent, []string{table, segment, "+seq:1"}, "--at", "seq:3")
	restored("", absent, []string{"shale copy repair TO"}, "--salvage")
}

// TestShip_UntilItEnds ships what another goroutine could not write by itself, until its context ends.
func TestShip_UntilItEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	b, err := remote.NewDir(nil, "bucket")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := b.Stat(ctx, object.StepName(2)); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond) // a file of another process would be waited for in the same way
		}
	}()
	out, notes, status := runIn(ctx, "ship", "db", "bucket", "--every", "10ms", "--publish", "20ms")
	// The step may be there before the command has taken that in, and then it says that it is behind.
	if status != found || !strings.Contains(notes, "db is shipped to bucket; Ctrl-C ends it") || !regexp.MustCompile("all writes are in the bucket|behind by 2 writes").MatchString(out) {
		t.Errorf("status %d, %s%s", status, out, notes)
	}
	must(t, "restore", "bucket", "copy")
	if got := keys(t, "copy"); got != "a b" {
		t.Error(got)
	}
}

// TestShip_TakenOver ships a restored copy. The first folder is told, and keeps what it had not shipped.
func TestShip_TakenOver(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a", "b")
	must(t, "ship", "--once", "db", "bucket")
	must(t, "restore", "bucket", "second")
	must(t, "ship", "--once", "second", "bucket")
	write(t, "db", "c 1", "d")
	_, notes, status := run(t, "ship", "--once", "db", "bucket")
	if status != failed || !strings.Contains(notes, "`shale-remote salvage` lists") {
		t.Errorf("status %d, %s", status, notes)
	}
	out, notes, status := run(t, "salvage", "db")
	if status != found || !strings.Contains(out, "put \"c 1\" \"value of c 1\"\n") || !strings.Contains(out, "put d \"value of d\"\n") {
		t.Errorf("status %d, %s%s", status, out, notes)
	}
}

// TestPromote takes a store over. The first folder can't ship any more, and the new one can.
func TestPromote(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a", "b")
	must(t, "ship", "--once", "db", "bucket")
	if out := must(t, "promote", "bucket", "second"); !strings.Contains(out, "`shale-remote ship second bucket` goes on") {
		t.Error(out)
	}
	if _, notes, status := run(t, "ship", "--once", "db", "bucket"); status != failed || !strings.Contains(notes, "`shale-remote salvage` lists") {
		t.Errorf("status %d, %s", status, notes)
	}
	write(t, "second", "c")
	must(t, "ship", "--once", "second", "bucket")
	must(t, "restore", "bucket", "third")
	if got := keys(t, "third"); got != "a b c" {
		t.Error(got)
	}
	if _, notes, status := run(t, "promote", "bucket", "second"); status != failed || !strings.Contains(notes, "has a store already") {
		t.Errorf("status %d, %s", status, notes)
	}
}

// TestMistakes checks that each mistake is told, with what to do.
func TestMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a")
	write(t, "other", "a")
	must(t, "ship", "--once", "db", "bucket")
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("letters/june", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"ship nowhere bucket", "there is no store in nowhere"},
		{"ship bucket", "no store is named"},
		{"ship other bucket", "ship other to another bucket or prefix than bucket"},
		{"ship db http://host/bucket", "http://host/bucket is not a bucket: write a folder, s3://HOST/BUCKET/PREFIX"},
		{"ship db s3://host", "write s3://HOST/BUCKET/PREFIX"},
		{"ship db bucket --every soon", "--every soon is not a time: write 500ms"},
		{"ship db bucket --every -1s", "--every -1s is not a time"},
		{"restore nowhere copy", "there is no bucket nowhere: correct the name"},
		{"restore file copy", "file is a file"},
		{"restore bucket copy --at tomorrow", "--at tomorrow is not a point"},
		{"restore bucket copy --at seq:x", "is not a number from 1 up"},
		{"restore bucket copy --at step:1 --pin p", "give one of them"},
		{"restore bucket db", "db"},
		{"restore bucket bucket/copy", "must not lie in each other"},
		{"restore bucket copy --pin never", "look at the list of pins"},
		{"ship db db", "must not lie in each other"},
		{"ship db db/backup", "must not lie in each other"},
		{"ship db other", "other is a store, and no bucket"},
		{"ship db letters", "letters has other files and is no bucket: name a new or an empty directory"},
		{"ship db file/bucket", "file/bucket is a file, or below one"},
		{"verify db", "db is a store, and no bucket"},
		{"pins letters", "letters has other files and is no bucket: correct the name"},
		{"pin bucket p --step 99", "the newest is step 2"},
		{"salvage nowhere", "no such file or directory"},
		{"verify", "no bucket is named"},
		{"verify a --bucket b", "two buckets are named"},
		{"pins empty", "the bucket has no store"},
		{"pin bucket UPPER", `"UPPER" is no name for a pin: choose 1 to 183`},
		{"pin bucket p --step zero", "is not the number of a step"},
		{"salvage other", "no notes about a bucket"},
		{"frobnicate", "unknown command"},
		{"ship db bucket --frob", "unknown flag"},
	} {
		out, notes, status := run(t, strings.Fields(c.args)...)
		if status != failed || out != "" || !strings.HasPrefix(notes, "shale-remote: ") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: status %d, %s%s; want %s", c.args, status, out, notes, c.want)
		}
	}
	for _, name := range []string{"nowhere", "db/.put", "db/id", "letters/.put", "db/backup"} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("a wrong name has left %s behind", name)
		}
	}
	db, err := shale.Open("db", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // nothing was written
	if _, notes, status := run(t, "ship", "db", "bucket"); status != failed || !strings.Contains(notes, "Only that program can ship the store") {
		t.Errorf("status %d, %s", status, notes)
	}
}

// TestParsePoint reads the ways to write a point.
func TestParsePoint(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 25, 4, 5, 6, 0, zone)
	for text, want := range map[string]remote.At{
		"":                          {},
		"now":                       {},
		"seq:1,234":                 {Seq: 1234},
		"step:7":                    {Step: 7},
		"15m":                       {Time: now.Add(-15 * time.Minute)},
		"1h30m ago":                 {Time: now.Add(-90 * time.Minute)},
		"2026-11-25T03:05:06Z":      {Time: now},
		"2026-11-25T04:05:06+01:00": {Time: now},
		"2026-11-25 04:05:06":       {Time: now},
		"2026-11-25T04:05":          {Time: now.Add(-6 * time.Second)},
		"2026-11-25 04:05":          {Time: now.Add(-6 * time.Second)},
	} {
		if got, err := remote.ParsePoint(text, now); err != nil || got.Seq != want.Seq || got.Step != want.Step || !got.Time.Equal(want.Time) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"seq:", "seq:-1", "step:0", "noon", "25.11.2026", "seq:1e9"} {
		if got, err := remote.ParsePoint(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
