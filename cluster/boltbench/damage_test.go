package boltbench

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// A bit of a log's file has changed. raft hands entries on to other members, so a log must not return
// one that was altered. For the others it is only counted what happens: that is why shale keeps a log of its own.
func TestDamage_EachLog(t *testing.T) {
	stores := maps.Clone(logStores)
	// Small files, so that most entries are in files that are complete.
	stores["shale"] = func(dir string) (logStore, io.Closer, error) {
		o := cluster.LogStoreOptions()
		o.MemtableSize, o.Logger = 64<<10, slog.New(slog.DiscardHandler)
		db, err := shale.Open(dir, o)
		if err != nil {
			return nil, nil, err
		}
		return cluster.NewLogStore(db), db, nil
	}
	stores["raft-wal"] = func(dir string) (logStore, io.Closer, error) {
		s, err := raftwal.Open(dir, raftwal.WithSegmentSize(64<<10))
		return s, s, err
	}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log, closer, err := stores[name](dir)
			if err != nil {
				t.Fatal(err)
			}
			for i := uint64(1); i <= entries; i++ {
				if err := log.StoreLog(entry(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for at := 100; at < len(data); at += 1997 {
					damaged := t.TempDir() // a log that does not open may keep its lock
					if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
						t.Fatal(err)
					}
					changed := bytes.Clone(data)
					changed[at] ^= 1
					if err := os.WriteFile(filepath.Join(damaged, filepath.Base(file)), changed, 0o666); err != nil {
						t.Fatal(err)
					}
					count[read(damaged, stores[name])]++
				}
			}
			t.Logf("bits that were changed, each in a copy, and what came of it: %v", count)
			if name == "shale" && (count["wrong"] > 0 || count["an error"] < 100) {
				t.Errorf("of %v, none may be wrong", count)
			}
		})
	}
}

const entries = 400

// entry returns the entry of an index.
func entry(i uint64) *raft.Log {
	return &raft.Log{Index: i, Term: 1, Data: bytes.Repeat(fmt.Appendf(nil, "%010d", i), 100)}
}

// read says how it goes to read a log. The one of bbolt may read where no memory is.
func read(dir string, open func(dir string) (logStore, io.Closer, error)) (answer string) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			answer = "a panic"
		}
	}()
	log, closer, err := open(dir)
	if err != nil {
		return "an error"
	}
	defer func() { _ = closer.Close() }() // only read
	last, err := log.LastIndex()
	if err != nil {
		return "an error"
	}
	if last != entries {
		return "wrong"
	}
	answer = "right"
	for i := uint64(1); i <= entries; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			answer = "an error"
		} else if want := entry(i); l.Index != i || l.Term != want.Term || !bytes.Equal(l.Data, want.Data) {
			return "wrong"
		}
	}
	return answer
}
