package boltbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	raftwal "github.com/hashicorp/raft-wal"
	bolt "go.etcd.io/bbolt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// A logStore is a log of raft's, with raft's own values.
type logStore interface {
	raft.LogStore
	raft.StableStore
}

// logStores open the logs to compare, in a directory that is there.
var logStores = map[string]func(dir string) (logStore, io.Closer, error){
	"shale": func(dir string) (logStore, io.Closer, error) {
		db, err := shale.Open(filepath.Join(dir, "log"), cluster.LogStoreOptions())
		if err != nil {
			return nil, nil, err
		}
		return cluster.NewLogStore(db), db, nil
	},
	"raft-boltdb": func(dir string) (logStore, io.Closer, error) {
		s, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
		return s, s, err
	},
	"raft-wal": func(dir string) (logStore, io.Closer, error) {
		s, err := raftwal.Open(dir)
		return s, s, err
	},
}

// BenchmarkGroup_Write is BenchmarkNode_Write of module cluster with other logs, and with bbolt for the state: three
// members in one process over loopback, with the same settings of raft. The state machine writes all entries at hand in
// one transaction, and does not sync, because the log does.
func BenchmarkGroup_Write(b *testing.B) {
	for _, writers := range []int{1, 64, 1000} {
		for _, log := range slices.Sorted(maps.Keys(logStores)) {
			b.Run(fmt.Sprintf("writers=%d/log=%s", writers, log), func(b *testing.B) { writeTo(b, logGroup(b, 3, logStores[log]), writers) })
		}
	}
}

// writeTo writes by a number of writers at the same time.
func writeTo(b *testing.B, leader *raft.Raft, writers int) {
	value := make([]byte, 256)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				key := fmt.Appendf(nil, "key%09d", i)
				cmd := binary.AppendUvarint(nil, uint64(len(key)))
				cmd = append(append(cmd, key...), value...)
				if err := leader.Apply(cmd, 0).Error(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// logGroup starts n members and returns the leader.
func logGroup(b *testing.B, n int, open func(dir string) (logStore, io.Closer, error)) *raft.Raft {
	dir := b.TempDir()
	var servers []raft.Server
	var members []*raft.Raft
	for i := range n {
		id := fmt.Sprint("m", i)
		addr, err := net.ResolveTCPAddr("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		trans, err := raft.NewTCPTransport(addr.String(), nil, 3, 10*time.Second, io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		logDir := filepath.Join(dir, id+".log")
		if err := os.Mkdir(logDir, 0o777); err != nil {
			b.Fatal(err)
		}
		log, closer, err := open(logDir)
		if err != nil {
			b.Fatal(err)
		}
		state, err := bolt.Open(filepath.Join(dir, id+".state"), 0o644, &bolt.Options{NoSync: true, NoFreelistSync: true})
		if err != nil {
			b.Fatal(err)
		}
		c := raft.DefaultConfig()
		c.LocalID = raft.ServerID(id)
		c.CommitTimeout = 10 * time.Millisecond
		c.MaxAppendEntries = 128
		c.Logger = hclog.NewNullLogger()
		r, err := raft.NewRaft(c, &boltFSM{state}, log, log, raft.NewDiscardSnapshotStore(), trans)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := r.Shutdown().Error(); err != nil {
				b.Error(err)
			}
			_ = trans.Close()
			_ = closer.Close()
			_ = state.Close()
		})
		servers = append(servers, raft.Server{ID: c.LocalID, Address: trans.LocalAddr()})
		members = append(members, r)
	}
	if err := members[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		for _, r := range members {
			if r.State() == raft.Leader && r.Barrier(time.Second).Error() == nil {
				return r
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("no leader")
	return nil
}

// A boltFSM applies commands to one bucket.
type boltFSM struct{ db *bolt.DB }

func (f *boltFSM) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

func (f *boltFSM) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	err := f.db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("state"))
		if err != nil {
			return err
		}
		var last uint64
		for _, l := range logs {
			if l.Type != raft.LogCommand {
				continue
			}
			size, n := binary.Uvarint(l.Data)
			if err := bucket.Put(l.Data[n:n+int(size)], l.Data[n+int(size):]); err != nil {
				return err
			}
			last = l.Index
		}
		return bucket.Put([]byte{0xff}, binary.BigEndian.AppendUint64(nil, last))
	})
	for i := range answers {
		answers[i] = err
	}
	return answers
}

func (f *boltFSM) Snapshot() (raft.FSMSnapshot, error) { return noSnapshot{}, nil }
func (f *boltFSM) Restore(io.ReadCloser) error         { return nil }

type noSnapshot struct{}

func (noSnapshot) Persist(s raft.SnapshotSink) error { return s.Close() }
func (noSnapshot) Release()                          {}
