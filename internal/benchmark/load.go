package benchmark

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A loaded store is closed, so that it can be opened with various options.
type loaded struct {
	dir      string
	bits     float64
	Memtable int64         `json:"memtable_bytes"`
	Took     time.Duration `json:"load_ns"`
	RawBytes int64         `json:"raw_bytes"` // of keys and values
	Shape    shale.Metrics `json:"-"`
	written  int
}

// level0Runs is how many runs are left in level 0 on purpose. A store in use has some,
// and an absent key might be in each of them.
const level0Runs = 3

// load writes the dataset in random order and waits for compactions. The memtable is
// so small that the tree gets as deep as that of a store with a thousand times the
// data and the default memtable.
func load(ctx context.Context, dir string, d *Dataset, bits float64) (*loaded, error) {
	l := &loaded{dir: dir, bits: bits, RawBytes: RawBytes(d.Present)}
	l.Memtable = max(l.RawBytes/1500, 16<<10)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(d.Present))
	tail := min(len(order)/2, int(float64(len(order))*float64(l.Memtable)/float64(l.RawBytes)/3*level0Runs))
	begin := time.Now()
	opts := shale.Options{
		FS:           vfs.Unmapped,
		MemtableSize: l.Memtable * 16, TableSize: max(l.Memtable*8, 256<<10),
		FilterBits: bits, Durability: shale.SyncManual,
	}
	bar := NewProgress("loading", len(order))
	defer bar.Done()
	bulk := len(order) * 3 / 4 // larger flushes save time
	for _, phase := range []struct {
		upTo, memtableDivisor, parts, workers int
	}{{bulk, 1, 1, 0}, {len(order) - tail, 16, 1, 0}, {len(order), 16, level0Runs, -1}} {
		opts.MemtableSize = max(l.Memtable*16/int64(phase.memtableDivisor), 16<<10)
		opts.CompactionWorkers = phase.workers
		if err := l.write(ctx, &opts, d, order, phase.upTo, phase.parts, bar); err != nil {
			return nil, err
		}
	}
	l.Took = time.Since(begin)
	return l, nil
}

// write puts the next records, up to number upTo, into the store. It flushes after
// each of the given number of parts.
func (l *loaded) write(ctx context.Context, opts *shale.Options, d *Dataset, order []int, upTo, parts int, bar *Progress) error {
	db, err := shale.Open(l.dir, opts)
	if err != nil {
		return err
	}
	defer db.Close()
	from := l.written
	for part := range parts {
		end := from + (upTo-from)*(part+1)/parts
		for ; l.written < end; l.written++ {
			if l.written%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			r := d.Present[order[l.written]]
			if err := db.Put(r.Key, r.Value); err != nil {
				return err
			}
			bar.At(l.written)
		}
		if err := db.Flush(ctx); err != nil {
			return err
		}
	}
	if opts.CompactionWorkers >= 0 {
		if err := Settle(ctx, db); err != nil {
			return err
		}
	}
	l.Shape = db.Metrics()
	return db.Close()
}

// Settle waits until nothing is flushed or compacted for a tenth of a second.
func Settle(ctx context.Context, db *shale.DB) error {
	for quiet := 0; quiet < 5; quiet++ {
		m := db.Metrics()
		if m.Compacting+m.Flushing > 0 {
			quiet = -1
		}
		if err := db.Err(); err != nil {
			return fmt.Errorf("while compactions settle: %w", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}
