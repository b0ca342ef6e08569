package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// fork returns a history that is h up to the entry with this index, and another in later terms behind it.
func fork(t testing.TB, h history, index int) history {
	other := append(slices.Clone(h[:index]), newHistory(t, len(h), 99)[index:]...)
	for _, e := range other[index:] {
		e.Term += 3
	}
	return other
}

// A member gets a snapshot of which its own state is a part, or which it is ahead of, or of a history that
// goes another way than its own, as after a wrong recovery of a lost majority. Whatever the relation of their ends,
// it has the snapshot's history afterwards, if the two differ, and takes the entries behind it. A member that stops
// before it has replaced its state does so when it starts.
func TestState_RestoreOfAnyHistory(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 100, 9)
	for _, own := range []uint64{5, 40, 45, 70, 90} {
		for _, at := range []uint64{30, 45, 70, 80} {
			for _, forked := range []int{20, 42, 60, 100} {
				for _, stopped := range []bool{false, true} {
					if own > at && forked >= int(at) && forked < int(own) {
						continue // the snapshot is a part of the state; only a comparison of their ends can find the difference
					}
					name := fmt.Sprintf("own state at %d, snapshot of %d, histories part behind %d, stopped %v", own, at, forked, stopped)
					theirs := fork(t, h, forked)
					source, m := mustStart(t, vfs.NewMem()), mustStart(t, vfs.NewMem())
					source.mustApply(theirs, 0, at, 7)
					mustNil(t, source.snapshot(theirs, at))
					m.mustApply(h, 0, own, 7)
					disk := m.snaps.fs
					if stopped {
						if _, err := m.fetch(source); err != nil {
							t.Fatal(err)
						}
						m.close()
						m = mustStart(t, disk)
					} else if err := m.receive(source); err != nil {
						t.Fatal(err)
					}
					want := at
					if own > at && forked >= int(own) {
						want = own // it stays as it is
					}
					if got := m.state.applied(); got < theirs.lastCommand(want) || got > want {
						t.Errorf("%s: the state is at %d, want %d", name, got, want)
					}
					m.mustApply(theirs, at, 100, 7)
					if err := m.check(theirs); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					source.close()
					m.close()
				}
			}
		}
	}
}
