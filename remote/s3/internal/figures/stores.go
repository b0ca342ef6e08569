package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/counted"
)

// The two stores.

const (
	valueSize = 100
	entrySize = 16 + valueSize // bytes of key and value; the value is half random
	tablePart = 0.63           // of that, what an entry takes in a table
)

// appendKey appends key number i. Keys are in no order, and different numbers have different ones: the finalizer of SplitMix64
// (Steele, Lea and Flood, 2014) is a bijection.
func appendKey(dst []byte, i int) []byte {
	return hex.AppendEncode(dst, binary.BigEndian.AppendUint64(nil, mixed(uint64(i))))
}

// appendValue appends the value of key number i.
func appendValue(dst []byte, i int) []byte {
	x := uint64(i)
	for range valueSize / 2 / 8 {
		x = mixed(x + 1)
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return append(dst, make([]byte, valueSize-len(dst))...)
}

func mixed(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// A side is one of the two stores.
type side struct {
	b     *counted.Bucket
	s     *remote.Store
	dir   string
	local int64 // Options.LocalBytes

	writing time.Duration
	highest atomic.Int64 // bytes of tables and copies in dir
	tables  atomic.Int64 // that compactions have made
	stop    context.CancelFunc
	watched chan struct{}

	mu   sync.Mutex
	made []made // by compactions; guarded by mu
}

// A made is what a compaction has made, and when.
type made struct {
	begin, end time.Time
	bytes      int64
}

// atATime returns how many bytes those compactions have made that were under way at the same time.
func (s *side) atATime() (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.made {
		sum := int64(0)
		for _, m := range s.made {
			if !at.begin.Before(m.begin) && !at.begin.After(m.end) {
				sum += m.bytes
			}
		}
		most = max(most, sum)
	}
	return most
}

// A bench has both stores and the figures so far.
type bench struct {
	ctx context.Context
	config
	notes io.Writer

	budget, memtable int64
	near, far        *side // all tables are local; most are in the bucket
	figures          []figure
}

// makeStores writes the same entries to two stores, one after the other.
func (b *bench) makeStores(dir string, open func(name string) (remote.Bucket, error)) error {
	b.budget = int64(float64(b.n)*entrySize*tablePart) / b.part
	b.memtable = min(32<<20, b.budget/10)
	if b.table == 0 {
		b.table = max(b.memtable/2, 4<<10)
	}
	b.near, b.far = &side{dir: filepath.Join(dir, "near")}, &side{dir: filepath.Join(dir, "far"), local: b.budget}
	for _, s := range []*side{b.near, b.far} {
		below, err := open(filepath.Base(s.dir))
		if err != nil {
			return err
		}
		s.b = counted.New(below)
		if err := cmp.Or(b.open(s, 0), b.fill(s)); err != nil {
			return err
		}
	}
	ratio := b.far.writing.Seconds() / b.near.writing.Seconds()
	b.add("writers, next to those of a store that only ships", fmt.Sprintf("%.2f ×", ratio), "1.10 ×", ratio <= 1.10)
	return nil
}

// open opens a store. workers is Options.CompactionWorkers.
func (b *bench) open(s *side, workers int) (err error) {
	s.s, err = remote.Open(b.ctx, s.dir, s.b, &remote.Options{
		LocalBytes: s.local, Publish: 5 * time.Second,
		Store: shale.Options{
			Durability: shale.SyncPeriodic, MemtableSize: b.memtable, TableSize: b.table, CacheSize: 1 << 20, FilterBits: b.bits, CompactionWorkers: workers,
			OnEvent: func(e shale.Event) {
				if (e.Kind == shale.EventCompaction || e.Kind == shale.EventFlush) && e.Err == nil {
					s.tables.Add(int64(len(e.Tables)))
					if e.Kind == shale.EventCompaction {
						s.mu.Lock()
						s.made = append(s.made, made{e.Time.Add(-e.Duration), e.Time, e.BytesOut})
						s.mu.Unlock()
					}
				}
			},
		},
	})
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(b.ctx)
	s.stop, s.watched = stop, make(chan struct{})
	go s.watch(watching)
	return nil
}

// fill writes all entries, and waits until nothing is left to be done.
func (b *bench) fill(s *side) error {
	begin := time.Now()
	var key, value []byte
	for i := range b.n {
		key, value = appendKey(key[:0], i), appendValue(value[:0], i)
		if err := s.s.DB().Put(key, value); err != nil {
			return err
		}
		if i%1_000_000 == 999_999 {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			fmt.Fprintf(b.notes, "%s: %d million entries in %v\n", filepath.Base(s.dir), (i+1)/1_000_000, time.Since(begin).Round(time.Second))
		}
	}
	if err := s.s.DB().Flush(b.ctx); err != nil {
		return err
	}
	s.writing = time.Since(begin)
	return b.settle(s)
}

// settle waits until compactions have nothing to do and tables have the room that they may have.
func (b *bench) settle(s *side) error {
	for {
		if err := s.s.Publish(b.ctx); err != nil {
			return err
		}
		if err := s.s.Status().Failing; err != nil {
			return err
		}
		m, now := s.s.DB().Metrics(), s.room()
		if (s.local == 0 || now <= s.local) && m.CompactionDebt == 0 && m.Compacting == 0 {
			return nil
		}
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// room returns how many bytes of the local disk tables take, with the copies of those in the bucket. Files that go meanwhile
// are passed by.
func (s *side) room() (sum int64) {
	_ = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it was removed, or is looked into
		}
		if info, err := e.Info(); err == nil && (filepath.Ext(path) == ".sst" || filepath.Dir(path) != s.dir) {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// watch notes the most room that was taken.
func (s *side) watch(ctx context.Context) {
	defer close(s.watched)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.highest.Store(max(s.highest.Load(), s.room()))
		}
	}
}

// closeStore closes a store that is open.
func (s *side) closeStore() error {
	if s.s == nil {
		return nil
	}
	s.stop()
	<-s.watched
	err := s.s.Close()
	s.s = nil
	return err
}

// close closes both stores.
func (b *bench) close() error { return errors.Join(b.near.closeStore(), b.far.closeStore()) }
