package command

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
)

// Another program writes, so logs and tables are added and removed while find reads them. find
// sees everything that was written before it began, and no command reports damage.
func TestFindBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, &shale.Options{MemtableSize: 8 << 10, TableSize: 4 << 10, Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	var written atomic.Uint64 // each operation has one sequence number
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- db.Close()
				return
			default:
			}
			key := "k"
			if i%20 > 0 {
				key = fmt.Sprintf("key%04d", i*7919%3000)
			}
			if err := db.Put([]byte(key), []byte("value")); err != nil {
				t.Error(err)
			}
			written.Add(1)
		}
	}()
	for written.Load() < 5000 {
	}
	yes := regexp.MustCompile(`(?m)^ *([\d,]+)  put .* yes$`)
	files := map[string]bool{}
	loops := 10
	if testing.Short() {
		loops = 3
	}
	for range loops {
		before := written.Load()
		out, notes, st := call("", "-C", dir, "explain", "--versions", "k")
		m := yes.FindStringSubmatch(out)
		if st != Found || m == nil || strings.Contains(notes, "shale:") {
			t.Fatalf("status %d\n%s%s", st, out, notes)
		}
		seq, err := strconv.ParseUint(strings.ReplaceAll(m[1], ",", ""), 10, 64)
		if err != nil || seq+20 < before {
			t.Fatalf("version %d is seen (%v), %d operations were written before\n%s", seq, err, before, out)
		}
		files[m[0]] = true
		for _, args := range [][]string{{"space"}, {"wal"}, {"manifest"}, {"explain", "k"}, {"filters"}} {
			if out, notes, st := call("", append([]string{"-C", dir}, args...)...); st != Found || strings.Contains(notes, "shale:") {
				t.Fatalf("%v: status %d\n%s%s", args, st, out, notes)
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations, %d states seen", written.Load(), len(files))
}
