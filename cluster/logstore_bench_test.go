package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// benchLog returns a log store with the options of LogStoreOptions.
func benchLog(b *testing.B, fsys vfs.FS) *LogStore {
	o := LogStoreOptions()
	o.FS = fsys
	db, err := shale.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return NewLogStore(db)
}

// benchEntries returns n entries of 256 bytes from index up.
func benchEntries(index uint64, n int) (logs []*raft.Log) {
	for i := range n {
		logs = append(logs, &raft.Log{Index: index + uint64(i), Term: 3, Data: make([]byte, 256), AppendedAt: time.Now()})
	}
	return logs
}

// BenchmarkLogStore_StoreLogs stores 64 entries at a time, in memory and on the disk, and truncates the log now
// and then.
func BenchmarkLogStore_StoreLogs(b *testing.B) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": nil} {
		b.Run(name, func(b *testing.B) {
			s := benchLog(b, fsys)
			b.ReportAllocs()
			logs, next := benchEntries(1, 64), uint64(1)
			for b.Loop() {
				for _, l := range logs {
					l.Index = next
					next++
				}
				mustStore(b, s, logs...)
				if next%8192 == 1 && next > 10240 {
					mustDelete(b, s, 1, next-10240)
				}
			}
			b.ReportMetric(float64(b.N)*64/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkLogStore_GetLog reads an entry that is still in the memtable.
func BenchmarkLogStore_GetLog(b *testing.B) {
	s := benchLog(b, vfs.NewMem())
	for i := uint64(1); i < 10_240; i += 64 {
		mustStore(b, s, benchEntries(i, 64)...)
	}
	b.ReportAllocs()
	var l raft.Log
	for i := uint64(0); b.Loop(); i += 7919 {
		if err := s.GetLog(1+i%10_240, &l); err != nil {
			b.Fatal(err)
		}
	}
}
