package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
	"github.com/shaledb/shale/vfs"
)

// coldSeeks is the most seeks of seekrandom-cold. They are few, so that nearly every block that
// they read is one that the page cache does not have either.
const coldSeeks = 2000

// seekCold seeks in a store that was just opened, after its files were dropped from the page cache.
func (c *child) seekCold() error {
	const name = "seekrandom-cold"
	if !c.measures(name) {
		return nil
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := dropPages(c.Dir); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o := stores.Options{Reading: true}
	c.smallCache(&o)
	if err := c.open(o); err != nil {
		return err
	}
	if err := c.measureRead(name, c.seekFew); err != nil {
		return err
	}
	if err := c.close(); err != nil {
		return err
	}
	return c.rawReads(&c.runs[len(c.runs)-1])
}

// tableNames are how the files end that rawReads reads. Logs have parts that were never written,
// which the system reads without the device.
var tableNames = []string{".sst", ".ldb"}

// rawReads measures the reads of run, which were cold, without the store, and adds them to run. It
// does nothing for a store that reads through a mapping, or has no tables.
func (c *child) rawReads(run *results.Run) (err error) {
	reads := run.IO.ReadCalls
	if run.Engine != nil && run.Engine.BlockReads != results.Unknown {
		reads = run.Engine.BlockReads
	}
	raw := &results.Raw{Reads: reads, ReadBytes: int64(run.IO.ReadBytes / max(reads, 1))}
	if err := dropPages(c.Dir); err != nil {
		return err
	}
	r, err := openRaw(c.Dir, raw.ReadBytes)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil || len(r.files) == 0 || raw.ReadBytes == 0 {
		return err
	}
	random, owed := data.NewRandom(c.seed("raw reads", 0)), 0.0
	m, err := c.measure(run.Workload, c.duration(), func(t *track) error {
		t.ready("raw reads")
		for more := true; more && t.ops < coldSeeks; more = t.counted() {
			owed += reads // most numbers of reads are no whole ones
			if err := r.read(int(owed), random); err != nil {
				return err
			}
			owed -= float64(int(owed))
		}
		return nil
	})
	if err != nil {
		return err
	}
	raw.DeviceRead = m.run.IO.DeviceRead
	raw.NanosPerOp, raw.CPUNanosPerOp, raw.P50, raw.P99 = m.run.NanosPerOp, m.run.CPUNanosPerOp, m.run.Latency.P50, m.run.Latency.P99
	run.Raw = raw
	return nil
}

// A rawReader reads at random places of some files.
type rawReader struct {
	files []vfs.File
	sizes []int64
	total int64
	buf   []byte
	at    []rawPlace
}

type rawPlace struct {
	file vfs.File
	off  int64
}

// openRaw opens the tables in dir. The caller closes the reader, also after an error.
func openRaw(dir string, bytes int64) (*rawReader, error) {
	r := &rawReader{buf: make([]byte, bytes)}
	return r, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains(tableNames, filepath.Ext(path)) {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() <= bytes {
			return err
		}
		f, err := vfs.Default.Open(path)
		if err != nil {
			return err
		}
		r.files, r.sizes, r.total = append(r.files, f), append(r.sizes, info.Size()-bytes), r.total+info.Size()-bytes
		return nil
	})
}

// read reads at n places. It asks for all of them before it waits for the first.
func (r *rawReader) read(n int, random *data.Random) error {
	r.at = r.at[:0]
	for range n {
		i, off := 0, int64(random.Below(uint64(r.total)))
		for off >= r.sizes[i] {
			off -= r.sizes[i]
			i++
		}
		r.at = append(r.at, rawPlace{r.files[i], off})
		if t, ok := r.files[i].(vfs.TryReader); ok {
			t.WillNeed(off, int64(len(r.buf)))
		}
	}
	for _, p := range r.at {
		if _, err := p.file.ReadAt(r.buf, p.off); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawReader) close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// seekFew is seekRandom with a clock around each seek, and an end.
func (c *child) seekFew(t *track) error {
	it, err := c.store.Iterator()
	if err != nil {
		return err
	}
	next, _ := c.presentKeys("seekrandom-cold", 0)
	t.ready("a seek and 10 entries")
	for more := true; more && t.ops < coldSeeks; more = t.counted() {
		if err := c.scan(it, next(), seekEntries+1); err != nil {
			return err
		}
	}
	return it.Close()
}

// dropPages drops the files of a closed store from the page cache, where the system can do that.
// While a store is open, pages that it has mapped would stay.
func dropPages(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := vfs.Default.OpenReadWrite(path)
		if err != nil {
			return err
		}
		err = f.Sync()
		if err == nil {
			if err = vfs.DropCache(f); errors.Is(err, vfs.ErrUnsupported) {
				err = nil
			}
		}
		return errors.Join(err, f.Close())
	})
}
