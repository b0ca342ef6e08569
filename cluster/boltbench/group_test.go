package boltbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	bolt "go.etcd.io/bbolt"
)

// BenchmarkGroup_Write is BenchmarkNode_Write of module cluster, on raft-boltdb for the log and bbolt
// for the state: three members in one process over loopback, with the same settings of raft. The state
// machine writes all entries at hand in one transaction, and does not sync, because the log does.
func BenchmarkGroup_Write(b *testing.B) {
	leader := boltGroup(b, 3)
	for _, writers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
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
		})
	}
}

// boltGroup starts n members and returns the leader.
func boltGroup(b *testing.B, n int) *raft.Raft {
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
		log, err := raftboltdb.NewBoltStore(filepath.Join(dir, id+".log"))
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
			_ = log.Close()
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
