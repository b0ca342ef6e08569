package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestCopyLog copies from another kind of store, one with a gap too.
func TestCopyLog(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, c := range []struct {
		name       string
		have, want []*raft.Log
	}{
		{"no entry", nil, nil},
		{"one entry", entries(7, 7, 1), entries(7, 7, 1)},
		{"several batches", entries(3, 1000, 1), entries(3, 1000, 1)},
		{"a gap", append(entries(1, 20, 1), entries(1001, 1030, 2)...), entries(1001, 1030, 2)},
	} {
		from := raft.NewInmemStore()
		if err := from.StoreLogs(c.have); err != nil {
			t.Fatal(err)
		}
		err := errors.Join(from.SetUint64([]byte("CurrentTerm"), 9), from.SetUint64([]byte("LastVoteTerm"), 8),
			from.Set([]byte("LastVoteCand"), []byte("n3")))
		if err != nil {
			t.Fatal(err)
		}
		to := openLog(t, vfs.NewMem())
		if err := CopyLog(context.Background(), to, from); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		mustHave(t, to, c.want...)
		term, err1 := to.GetUint64([]byte("CurrentTerm"))
		voted, err2 := to.GetUint64([]byte("LastVoteTerm"))
		candidate, err3 := to.Get([]byte("LastVoteCand"))
		if err := errors.Join(err1, err2, err3); err != nil || term != 9 || voted != 8 || string(candidate) != "n3" {
			t.Errorf("%s: term %d, vote in %d for %q, %v", c.name, term, voted, candidate, err)
		}
		back := raft.NewInmemStore()
		if err := CopyLog(context.Background(), back, to); err != nil {
			t.Errorf("%s, back: %v", c.name, err)
		}
		if err := CopyLog(context.Background(), to, from); err == nil || !strings.Contains(err.Error(), "take a new one") {
			t.Errorf("%s: a second copy = %v, want a refusal", c.name, err)
		}
		mustCloseLog(t, to)
	}
}

// TestCopyLog_NewMember copies the store of a member that has no term yet.
func TestCopyLog_NewMember(t *testing.T) {
	testenv.CheckLeaks(t)
	from, to := openLog(t, vfs.NewMem()), openLog(t, vfs.NewMem())
	if err := CopyLog(context.Background(), to, from); err != nil {
		t.Error(err)
	}
	if _, err := to.GetUint64([]byte("CurrentTerm")); err != ErrKeyNotFound {
		t.Errorf("the term of a member without one = %v", err)
	}
	mustCloseLog(t, to)
	if err := CopyLog(context.Background(), to, from); err == nil {
		t.Error("a copy to a closed store succeeds")
	}
	mustCloseLog(t, from)
	to = openLog(t, vfs.NewMem())
	defer mustCloseLog(t, to)
	if err := CopyLog(context.Background(), to, from); err == nil {
		t.Error("a copy from a closed store succeeds")
	}
}

// TestCopyLog_Ended ends a copy before it has begun.
func TestCopyLog_Ended(t *testing.T) {
	testenv.CheckLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	from, to := openLog(t, vfs.NewMem()), openLog(t, vfs.NewMem())
	defer mustCloseLog(t, from)
	defer mustCloseLog(t, to)
	mustStore(t, from, entries(1, 9, 1)...)
	if err := CopyLog(ctx, to, from); !errors.Is(err, context.Canceled) {
		t.Errorf("CopyLog = %v, want %v", err, context.Canceled)
	}
	mustHave(t, to)
}
