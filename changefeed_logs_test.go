package shale

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// What the gate refuses is in the log, and durable, but is not shown: not while it waits, and not after Resume.
func TestChanges_GateAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := errors.New("refused")
		answer := make(chan error)
		o := feedOptions(vfs.NewMem())
		o.Shipping.Gate = func(LogPosition) error { return <-answer }
		db := mustOpen(t, "db", o)
		defer db.Close()
		seen := follow(t.Context(), db, 0)
		put := func(key string, verdict error) {
			go func() {
				if err := db.Put([]byte(key), []byte("1")); !errors.Is(err, verdict) {
					t.Errorf("Put(%s): %v", key, err)
				}
			}()
			time.Sleep(3 * feedPause)
			synctest.Wait()
			before, _ := seen()
			answer <- verdict
			time.Sleep(3 * feedPause)
			synctest.Wait()
			if got, err := seen(); err != nil || len(got)-len(before) != map[bool]int{true: 1}[verdict == nil] {
				t.Errorf("%s, gate says %v: %q, then %q, %v", key, verdict, before, got, err)
			}
		}
		put("a", nil)
		put("b", refusal)
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		put("c", nil)
		want := []string{"1-1 put a=1", "3-3 put c=1"}
		if got, err := seen(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		close(answer)
		wantChanges(t, db, 0, 3, want...)
		wantChanges(t, db, 1, 3, want[1:]...)
		closeTest(t, db)
		o.Shipping.Gate = nil
		db = mustOpen(t, "db", o)
		defer db.Close()
		wantChanges(t, db, 0, 3, want...)
		wantChanges(t, db, 1, 3, want[1:]...)
	})
}

// A log that fails is read up to the last write that Resume keeps. If that can't be read any more after a restart, the
// feed says so. The numbers of writes that have failed are no gaps.
func TestChanges_FailedLog(t *testing.T) {
	for _, lost := range []bool{false, true} {
		mem := vfs.NewMem()
		disk := faultfs.New(mem, nil)
		o := feedOptions(disk)
		o.Durability = SyncManual
		db := mustOpen(t, "db", o)
		mustPut(t, db, "a", "1")
		if err := db.Sync(); err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "b", "1")
		fault := errors.New("injected")
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf(op == vfs.OpSync && strings.HasSuffix(name, ".wal"), fault)
		})
		var b Batch
		b.SetDurability(SyncEach)
		if err := errors.Join(b.Put([]byte("c"), nil), db.Write(t.Context(), &b)); !errors.Is(err, fault) {
			t.Fatal(err)
		}
		disk.Inject(nil)
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "d", "1")
		if err := db.Sync(); err != nil {
			t.Fatal(err)
		}
		want := []string{"1-1 put a=1", "2-2 put b=1", "3-3 put c=", "4-4 put d=1"} // c was visible, so Resume keeps it
		wantChanges(t, db, 0, 4, want...)
		closeTest(t, db)
		if lost { // what the failed sync has not written
			o.FS = mem.Crash(vfs.CrashConfig{})
		}
		db = mustOpen(t, "db", o)
		if !lost {
			wantChanges(t, db, 0, 4, want...)
		} else {
			wantGone(t, db, 0, 4)
			wantGone(t, db, 1, 4)
			wantChanges(t, db, 3, 4, want[3:]...)
		}
		closeTest(t, db)
	}
}

// The number of a write that has failed is no gap, and the write is no change: also if the store is opened again before anything
// else is written, and if a crash comes while Resume replaces the log.
func TestChanges_FailedWrite(t *testing.T) {
	for _, crash := range []bool{false, true} {
		mem := vfs.NewMem()
		disk := faultfs.New(mem, nil)
		o := feedOptions(disk)
		o.Durability = SyncEach
		db := mustOpen(t, "db", o)
		mustPut(t, db, "a", "1")
		fault := errors.New("injected")
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf(op == vfs.OpSync && strings.HasSuffix(name, ".wal"), fault)
		})
		if err := db.Put([]byte("failed"), nil); !errors.Is(err, fault) {
			t.Fatal(err)
		}
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf(crash && op == vfs.OpCreate && strings.HasSuffix(name, ".wal"), fault)
		})
		if err := db.Resume(); crash != errors.Is(err, fault) {
			t.Fatal(err)
		}
		after := mem.Crash(vfs.CrashConfig{})
		if !crash {
			closeTest(t, db)
			after = mem
		} else if err := db.Close(); err == nil {
			t.Fatal("Close tells nothing of the failure")
		}
		o.FS = after
		db = mustOpen(t, "db", o)
		if _, err := db.Get([]byte("failed")); !errors.Is(err, ErrNotFound) {
			t.Errorf("crash %v: the write that failed is there: %v", crash, err)
		}
		mustPut(t, db, "b", "1")
		wantChanges(t, db, 0, 3, "1-1 put a=1", "3-3 put b=1")
		wantChanges(t, db, 1, 3, "3-3 put b=1")
		closeTest(t, db)
	}
}

// Logs go when nobody keeps them. Then the feed says from which number on it has them, and does not begin anywhere else.
func TestChanges_Gone(t *testing.T) {
	o := feedOptions(vfs.NewMem())
	o.KeepLog = 0
	db := openTest(t, o)
	for i := range 6 {
		mustPut(t, db, fmt.Sprint("k", i), "1")
		mustFlush(t, db)
	}
	mustPut(t, db, "last", "1")
	wantGone(t, db, 0, 7)
	wantGone(t, db, 5, 7)
	wantChanges(t, db, 6, 7, "7-7 put last=1")
	closeTest(t, db)
	db = openTest(t, o)
	wantGone(t, db, 5, 7)
	wantChanges(t, db, 6, 7, "7-7 put last=1")
}

// A reader that stops for long holds the log at which it is, and no other. Where it goes on, the next one is gone.
func TestChanges_SlowReader(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	o.KeepLog = 0
	db := openTest(t, o)
	mustPut(t, db, "a", "1")
	mustPut(t, db, "b", "1")
	logs := func() (nums []string) {
		db.awaitDeletions(t.Context())
		names, _ := mem.List("db")
		return slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".wal" })
	}
	first := logs()[0]
	var got []string
	var err error
	for c, cerr := range db.Changes(t.Context(), 0) {
		if err = cerr; err != nil {
			break
		}
		if got = append(got, changeText(c)); len(got) > 1 {
			continue
		}
		for i := range 10 {
			mustPut(t, db, fmt.Sprint("k", i), "1")
			mustFlush(t, db)
		}
		if names := logs(); !slices.Contains(names, first) || len(names) > 3+maxRecycled {
			t.Errorf("files %q, want %s and few others", names, first)
		}
	}
	if !slices.Equal(got[:2], []string{"1-1 put a=1", "2-2 put b=1"}) || !errors.Is(err, ErrChangesGone) {
		t.Errorf("%q, %v", got, err)
	}
	if names := logs(); slices.Contains(names, first) {
		t.Errorf("%s is still held: %q", first, names)
	}
}

// maxRecycled is how many logs are kept to be used again.
const maxRecycled = 2

// A log that was used again is not taken for the one that it was.
func TestChanges_UsedAgain(t *testing.T) {
	o := feedOptions(vfs.NewMem())
	o.KeepLog = 0
	db := openTest(t, o)
	for i := range 50 {
		mustPut(t, db, fmt.Sprint("k", i), "1")
		mustFlush(t, db)
		for after := range uint64(i) {
			wantGone(t, db, after, uint64(i)+2)
		}
	}
}

// KeepLog spares the newest logs, as many as fit, over restarts too, and the next Open with less gives them back.
func TestChanges_KeepLog(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	o.KeepLog = 35 << 10
	db := mustOpen(t, "db", o)
	value := strings.Repeat("v", 5<<10)
	for i := range 10 {
		mustPut(t, db, fmt.Sprint("k", i), value)
		mustFlush(t, db)
	}
	oldest := func() uint64 {
		t.Helper()
		_, err := changesUpTo(db, 0, 10)
		var first uint64
		if _, serr := fmt.Sscanf(fmt.Sprint(err), "shale: changes are gone: after number 0, the first number there is is %d", &first); serr != nil {
			t.Fatal(err)
		}
		return first
	}
	first := oldest() // three logs of 10 KiB, with their headers
	if first != 8 {
		t.Errorf("the first number there is is %d", first)
	}
	_, kept := db.logs.OrphanBytes()
	if kept > o.KeepLog+3*4096 || kept < o.KeepLog/2 { // a file has whole pages
		t.Errorf("%d bytes are kept", kept)
	}
	if n := ShippingOf(db).HeldLogBytes(); n != 0 {
		t.Errorf("%d bytes are held by HoldLogs", n)
	}
	reopen := func(keep int64) {
		t.Helper()
		closeTest(t, db)
		o.KeepLog = keep
		db = mustOpen(t, "db", o)
	}
	reopen(35 << 10)
	if n := oldest(); n < first || n > first+1 { // the log of the session that has ended is one of them
		t.Errorf("after Open the first number there is is %d, was %d", n, first)
	}
	reopen(24 << 10) // the two logs that have ended without writes, and that of the last one
	if n := oldest(); n != 10 {
		t.Errorf("with less the first number there is is %d", n)
	}
	reopen(1 << 10) // less than any log has
	if n := oldest(); n != 11 {
		t.Errorf("with least the first number there is is %d", n)
	}
	reopen(64 << 10) // what is gone is gone
	if n := oldest(); n != 11 {
		t.Errorf("with more the first number there is is %d", n)
	}
	reopen(0)
	names, _ := mem.List("db")
	if n := len(slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".wal" })); n != 1 {
		t.Errorf("%d logs are left", n)
	}
	closeTest(t, db)
	if _, err := Open("db", &Options{FS: mem, KeepLog: -1}); err == nil || !strings.Contains(err.Error(), "KeepLog") {
		t.Errorf("a negative KeepLog: %v", err)
	}
}

// Obsolete logs that are kept are used again when newer ones have taken their place.
func TestChanges_KeptLogsAreUsedAgain(t *testing.T) {
	o := feedOptions(vfs.NewMem())
	o.KeepLog = 300 << 10
	db := openTest(t, o)
	for i := range 80 {
		mustPut(t, db, fmt.Sprint("k", i%10), strings.Repeat("v", 9<<10))
		if i%8 == 7 {
			mustFlush(t, db)
		}
	}
	if _, n := db.logs.Spare(); n == 0 {
		t.Error("no log is kept to be used again")
	}
	if _, kept := db.logs.OrphanBytes(); kept > 2*o.KeepLog || kept < o.KeepLog/2 { // of such small logs, files have twice the bytes
		t.Errorf("%d bytes are kept", kept)
	}
}

// A kept log that is missing is a gap, and not a number that was left out. One that is damaged is an error of the feed,
// and of nothing else.
func TestChanges_MissingAndDamaged(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	db := mustOpen(t, "db", o)
	var logs []string
	for i := range 4 {
		logs = append(logs, filepath.Join("db", base.LogName(db.logs.CurrentNum())))
		mustPut(t, db, fmt.Sprint("k", i), "1")
		mustFlush(t, db)
	}
	if err := mem.Remove(logs[1]); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		got, err := changesUpTo(db, 0, 4)
		if !errors.Is(err, ErrChangesGone) || len(got) > 1 {
			t.Errorf("%s: %q, %v", when, got, err)
		}
		wantGone(t, db, 1, 3)
		wantChanges(t, db, 2, 4, "3-3 put k2=1", "4-4 put k3=1")
	}
	check("while it is open")
	closeTest(t, db)
	db = mustOpen(t, "db", o)
	check("after Open")

	f, err := mem.OpenReadWrite(logs[3])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{77}, 4096+12); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := changesUpTo(db, 2, 4)
	var damage *CorruptionError
	if !errors.As(err, &damage) || damage.File != filepath.Base(logs[3]) || !slices.Equal(got, []string{"3-3 put k2=1"}) {
		t.Errorf("a damaged log: %q, %v", got, err)
	}
	mustPut(t, db, "k4", "1")
	wantChanges(t, db, 4, 5, "5-5 put k4=1")
	closeTest(t, db) // verifies the store
	db = mustOpen(t, "db", o)
	closeTest(t, db)
}

// A kept log that Open can't look at is not removed, and the program learns of it.
func TestChanges_KeptLogUnreadable(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpStat, vfs.OpOpen, vfs.OpRead} {
		mem := vfs.NewMem()
		disk := faultfs.New(mem, nil)
		o := feedOptions(disk)
		var told error
		o.OnEvent = func(e Event) {
			if e.Kind == EventBackgroundError {
				told = e.Err
			}
		}
		db := mustOpen(t, "db", o)
		var want []string
		log := ""
		for i := range 4 {
			if i == 1 {
				log = base.LogName(db.logs.CurrentNum())
			}
			mustPut(t, db, fmt.Sprint("k", i), "1")
			want = append(want, fmt.Sprintf("%d-%[1]d put k%d=1", i+1, i))
			mustFlush(t, db)
		}
		closeTest(t, db)
		fault, failed := errors.New("injected"), false
		disk.Inject(func(is vfs.Op, name string, _ int64) error {
			if is == op && filepath.Base(name) == log {
				failed = true
				return fault
			}
			return nil
		})
		db = mustOpen(t, "db", o)
		disk.Inject(nil)
		if !failed || !errors.Is(told, fault) {
			t.Errorf("%v: failed %v, and the program was told %v", op, failed, told)
		}
		wantChanges(t, db, 0, 4, want...)
		closeTest(t, db)
		db = mustOpen(t, "db", o)
		wantChanges(t, db, 0, 4, want...)
		closeTest(t, db)
	}
}

// Whatever bit of a kept log is wrong, a feed shows what was written or ends with an error that says so. The store
// opens, and has all that it had.
func TestChanges_DamageAnywhere(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	db := mustOpen(t, "db", o)
	var logs []base.FileNum
	var want []string
	for i := range 3 {
		logs = append(logs, db.logs.CurrentNum())
		mustPut(t, db, fmt.Sprint("k", i), "1")
		mustPut(t, db, fmt.Sprint("l", i), strings.Repeat("v", 50))
		want = append(want, fmt.Sprintf("%d-%d put k%d=1", 2*i+1, 2*i+1, i), fmt.Sprintf("%d-%d put l%d=vvvvvvvv", 2*i+2, 2*i+2, i))
		mustFlush(t, db)
	}
	closeTest(t, db)
	found := 0
	for _, num := range logs {
		name := filepath.Join("db", base.LogName(num))
		info, err := mem.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		for off := int64(0); off < min(info.Size, 4096+200); off++ {
			if off == 80 {
				off = 4096 // the rest of the header's page is not read
			}
			copied := mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
			f, err := copied.OpenReadWrite(name)
			if err != nil {
				t.Fatal(err)
			}
			var b [1]byte
			_, err = f.ReadAt(b[:], off)
			b[0] ^= 1 << (off % 8)
			if _, werr := f.WriteAt(b[:], off); errors.Join(err, werr, f.Close()) != nil {
				t.Fatal(err, werr)
			}
			c := *o
			c.FS = copied
			db, err := Open("db", &c)
			if err != nil {
				t.Fatalf("%s, byte %d: Open: %v", name, off, err)
			}
			got, err := changesUpTo(db, 0, 6)
			var damage *CorruptionError
			switch {
			case len(got) > len(want) || !slices.Equal(got, want[:len(got)]):
				t.Errorf("%s, byte %d: %q", name, off, got)
			case err == nil && len(got) < len(want), err != nil && !errors.As(err, &damage) && !errors.Is(err, ErrChangesGone) && !errors.Is(err, ErrFormatTooNew):
				t.Errorf("%s, byte %d: %q, %v", name, off, got, err)
			case err != nil:
				found++
			}
			wantGet(t, db, "k0", "1", true)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found < 300 {
		t.Errorf("%d damaged bytes were found", found)
	}
}
