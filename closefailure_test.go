package shale

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A compaction that fails while Close ends it is told of: not all errors of that
// time are Close's doing.
func TestClose_TellsOfAFailedCompaction(t *testing.T) {
	faults := vfs.NewFault(vfs.NewMem(), nil)
	opts := tinyStore(faults)
	opts.CompactionWorkers = -1
	db := openTest(t, &opts)
	for round := range 6 {
		fill(t, db, 100, round)
		mustFlush(t, db)
	}
	closeTest(t, db)

	errDevice := errors.New("the device has failed")
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op != vfs.OpCreate || !strings.HasSuffix(name, ".sst") {
			return nil
		}
		once.Do(func() { close(entered) })
		<-leave
		return errDevice
	})
	var mu sync.Mutex
	var told []error
	opts.CompactionWorkers = 1
	opts.OnEvent = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == EventBackgroundError {
			told = append(told, e.Err)
		}
	}
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	<-db.ctx.Done()
	close(leave)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if len(told) != 1 || !errors.Is(told[0], errDevice) {
		t.Errorf("told of %v, want the failure of the compaction", told)
	}
}

// What a table holds of a key in later versions only is no false positive of its
// filter.
func TestMetrics_LaterVersionIsNoFalsePositive(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "other", "v")
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 100 {
		mustPut(t, db, fmt.Sprint("key", i), "v")
	}
	mustFlush(t, db)
	for i := range 100 {
		wantGet(t, s, fmt.Sprint("key", i), "", false)
	}
	if m := db.Metrics(); m.FilterFalsePositive != 0 || m.FalsePositivesRemembered != 0 || m.FilterTruePositive < 100 {
		t.Errorf("%d false positives, %d remembered, %d true ones; want none, none and 100", m.FilterFalsePositive, m.FalsePositivesRemembered, m.FilterTruePositive)
	}
}
