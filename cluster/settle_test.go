package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// logOf returns a log with the entries from first to last.
func logOf(t testing.TB, h history, first, last uint64) *raft.InmemStore {
	t.Helper()
	log := raft.NewInmemStore()
	for i := first; i <= last; i++ {
		mustNil(t, log.StoreLog(h[i-1]))
	}
	return log
}

// A diskAt has a state at entry 80 and snapshots of 40 and 60.
func diskAt80(t testing.TB, h history) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	o := stateOptions()
	o.CompactionWorkers = -1
	m, err := startMachineOf(t, disk, o)
	mustNil(t, err)
	for i := uint64(0); i < 80; i += 20 {
		m.mustApply(h, i, i+20, 5)
		if i == 20 || i == 40 {
			// With the flush, and without compactions, the state shares tables with both snapshots.
			mustNil(t, m.state.current.Load().db.Flush(t.Context()))
			mustNil(t, m.snapshot(h, i+20))
		}
	}
	m.close()
	return disk
}

func TestSettle(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 100, 9)
	other := slices.Clone(h) // another leader's entries from 55 up
	for i := 54; i < 100; i++ {
		e := *h[i]
		e.Term += 7
		other[i] = &e
	}
	for _, c := range []struct {
		name        string
		log         *raft.InmemStore
		first, last uint64 // of the log afterwards
		lost        bool
	}{
		{"whole log", logOf(t, h, 1, 90), 1, 90, false},
		{"cut off behind the older snapshot", logOf(t, h, 41, 90), 41, 90, false},
		{"cut off behind the newer snapshot", logOf(t, h, 61, 90), 61, 90, false},
		{"entries are missing", logOf(t, h, 62, 90), 62, 90, true},
		{"log is shorter than the state", logOf(t, h, 1, 70), 1, 70, true},
		{"log ends before the snapshot, and the state had more", logOf(t, h, 1, 50), 0, 0, true},
		{"log of another leader, and the state had more", logOf(t, other, 1, 90), 0, 0, true},
		{"log is empty, and the state had more", logOf(t, h, 2, 1), 0, 0, true},
	} {
		m := mustStart(t, diskAt80(t, h))
		err := settle(c.log, m.state)
		if errors.Is(err, ErrLost) != c.lost || !c.lost && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		first, _ := c.log.FirstIndex()
		if last, _ := c.log.LastIndex(); first != c.first || last != c.last {
			t.Errorf("%s: the log is %d to %d, want %d to %d", c.name, first, last, c.first, c.last)
		}
		m.close()
	}
}

// TestSettle_StaleLog begins where raft was stopped while it installed a snapshot: the log before it,
// whose end nobody else has, must not be taken for committed.
func TestSettle_StaleLog(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 100, 9)
	for _, c := range []struct {
		name string
		last uint64
		keep bool
	}{
		{"behind the snapshot", 40, false},
		{"past the snapshot, with others' entries", 90, false},
		{"past the snapshot, with the same entries", 90, true},
	} {
		source, m := mustStart(t, vfs.NewMem()), mustStart(t, vfs.NewMem())
		source.mustApply(h, 0, 60, 10)
		mustNil(t, source.snapshot(h, 60))
		mustNil(t, m.receive(source))
		log := slices.Clone(h)
		if !c.keep {
			for i := 30; i < 100; i++ {
				e := *h[i]
				e.Term = 1
				log[i] = &e
			}
		}
		store := logOf(t, log, 1, c.last)
		if err := settle(store, m.state); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if last, _ := store.LastIndex(); (last > 0) != c.keep {
			t.Errorf("%s: the log ends with %d", c.name, last)
		}
		m.mustBe(h, 60)
		source.close()
		m.close()
	}
}

// damage changes a byte in the middle of a file.
func damage(t testing.TB, disk vfs.FS, name string) {
	t.Helper()
	info, err := disk.Stat(name)
	mustNil(t, err)
	damageAt(t, disk, name, info.Size/2)
}

func damageAt(t testing.TB, disk vfs.FS, name string, offset int64) {
	t.Helper()
	f, err := disk.OpenReadWrite(name)
	mustNil(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], offset)
	b[0] ^= 0xff
	if err == nil {
		_, err = f.WriteAt(b[:], offset)
	}
	mustNil(t, errors.Join(err, f.Sync(), f.Close()))
}

// TestState_Damaged damages the state, or what it shares with its snapshots. With a log that reaches
// back far enough the member comes back by itself, in one start. Else it must not go on, also
// when it is started again.
func TestState_Damaged(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 100, 9)
	tables := func(dir string) []string {
		return []string{dir + "/*.sst"}
	}
	for _, c := range []struct {
		name   string
		damage []string // patterns of files
		marked bool     // the state is known to be damaged
		first  uint64   // of the log
		behind uint64   // raft goes on behind this snapshot
		lost   bool
	}{
		{"nothing", nil, false, 61, 60, false},
		{"state's manifest", []string{"state-1/MANIFEST*"}, false, 61, 60, false},
		{"state's CURRENT", []string{"state-1/CURRENT"}, false, 61, 60, false},
		{"state, marked, nothing found", nil, true, 61, 60, false},
		{"shared tables, whole log", tables("state-1"), true, 1, 0, false},
		{"shared tables, short log", tables("state-1"), true, 61, 0, true},
		{"state and newest snapshot", []string{"state-1/MANIFEST*", "snapshots/*-60-*/store/MANIFEST*"}, false, 41, 40, false},
		{"state and newest snapshot, short log", []string{"state-1/MANIFEST*", "snapshots/*-60-*/store/MANIFEST*"}, false, 61, 40, true},
		{"state and all snapshots", []string{"state-1/MANIFEST*", "snapshots/*/store/MANIFEST*"}, false, 1, 0, false},
		{"meta of the newest snapshot", []string{"snapshots/*-60-*/meta.json"}, false, 41, 40, false},
		{"meta of the newest snapshot, short log", []string{"snapshots/*-60-*/meta.json"}, false, 61, 40, true},
		{"all, and no log", []string{"state-1/MANIFEST*", "snapshots/*/store/MANIFEST*"}, false, 101, 0, true},
	} {
		disk := diskAt80(t, h)
		hit := 0
		for name := range files(t, disk, machineDir) {
			for _, p := range c.damage {
				if ok, err := filepath.Match(filepath.Join(machineDir, p), name); err != nil {
					t.Fatal(err)
				} else if ok {
					damage(t, disk, name)
					hit++
				}
			}
		}
		if hit == 0 && c.damage != nil {
			t.Fatalf("%s: nothing is damaged", c.name)
		}
		if c.marked {
			putFile(t, disk, filepath.Join(machineDir, "state-1"+damageSuffix), "")
		}
		for range 2 {
			m := mustStart(t, disk)
			err := settle(logOf(t, h, c.first, 100), m.state)
			if errors.Is(err, ErrLost) != c.lost || !c.lost && err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if !c.lost {
				behind := uint64(0)
				if snap := m.snaps.newest(); snap != nil {
					behind = snap.meta.Index
				}
				if behind != c.behind {
					t.Errorf("%s: raft goes on behind %d, want %d", c.name, behind, c.behind)
				}
				if _, err := m.apply(h, behind, 100, 7); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				m.mustBe(h, 100)
				if got := states(t, disk); strings.Contains(got, " ") {
					t.Errorf("%s: the directory has %s", c.name, got)
				}
			}
			m.close()
		}
	}
}

// TestState_DamageMet meets a damaged block while a command is applied, or while a reader reads. The
// next start replaces the state.
func TestState_DamageMet(t *testing.T) {
	t.Parallel()
	for _, reading := range []bool{true, false} {
		h, _ := bigHistory(t, 200)
		again, _ := bigHistory(t, 200) // commands that look for keys that are there
		for _, e := range again {
			e.Index += 200
			h = append(h, e)
		}
		disk := vfs.NewMem()
		m := mustStart(t, disk)
		m.mustApply(h, 0, 200, 5)
		mustNil(t, m.state.current.Load().db.Compact(t.Context(), shale.Range{}))
		m.close()
		for name := range files(t, disk, machineDir) {
			if strings.HasSuffix(name, ".sst") {
				damageAt(t, disk, name, 20)
			}
		}
		m = mustStart(t, disk)
		if reading {
			if _, err := contents(m.state.reader()); !isDamage(err) {
				t.Fatalf("scan of a damaged state: %v", err)
			}
		} else if _, err := m.apply(h, 200, 400, 100); !isDamage(err) {
			t.Fatalf("apply to a damaged state: %v", err)
		}
		_ = m.state.Close()
		if got := states(t, disk); !strings.Contains(got, damageSuffix) {
			t.Errorf("the damage is not noted: %s", got)
		}
		m = mustStart(t, disk)
		mustNil(t, settle(logOf(t, h, 1, 400), m.state))
		m.mustApply(h, 0, 400, 50)
		m.mustBe(h, 400)
		m.close()
	}
}

// TestState_DamageKept takes the marks of damage away, for a group of one whose snapshots share the
// damaged table with the state: it goes on, and all but the damaged block can be read.
func TestState_DamageKept(t *testing.T) {
	t.Parallel()
	h, _ := bigHistory(t, 200)
	disk := vfs.NewMem()
	m := mustStart(t, disk)
	m.mustApply(h, 0, 100, 5)
	mustNil(t, m.state.current.Load().db.Compact(t.Context(), shale.Range{}))
	mustNil(t, m.snapshot(h, 100))
	m.close()
	for name := range files(t, disk, m.state.current.Load().path) {
		if strings.HasSuffix(name, ".sst") {
			damageAt(t, disk, name, 20)
		}
	}
	putFile(t, disk, filepath.Join(machineDir, "state-1"+damageSuffix), "")
	for range 2 {
		m = mustStart(t, disk)
		if err := settle(logOf(t, h, 101, 150), m.state); !errors.Is(err, ErrLost) {
			t.Fatalf("settle with a damaged state: %v", err)
		}
		m.close()
	}
	for _, name := range strings.Fields(states(t, disk)) {
		if strings.HasSuffix(name, damageSuffix) {
			mustNil(t, disk.Remove(filepath.Join(machineDir, name)))
		}
	}
	m = mustStart(t, disk)
	mustNil(t, settle(logOf(t, h, 101, 150), m.state))
	if m.state.applied() != 100 {
		t.Errorf("the state is at %d", m.state.applied())
	}
	read := 0
	for i := range 100 {
		_, err := m.state.reader().Get([]byte(fmt.Sprintf("key %08d", i)))
		switch {
		case err == nil:
			read++
		case !isDamage(err):
			t.Errorf("key %d: %v", i, err)
		}
	}
	if read < 50 || read == 100 {
		t.Errorf("%d of 100 keys can be read", read)
	}
	m.close()
}
