package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A CheckReport says what Check has read, and what it has found.
type CheckReport struct {
	Manifest string // name of the manifest that was read; empty: none can be read
	Runs     int    // number of runs that the manifest names

	// Writer: a program had the store open for writing when Check began or ended.
	// Then the newest log was not checked, and findings in files that the program
	// has replaced are left out.
	Writer bool

	Read     Read      // what was read and is right
	Findings []Finding // what is not; empty: nothing
}

// Read counts what was read and is right.
type Read struct {
	Files, Tables, Logs int
	Bytes               int64
	Blocks, Entries     uint64 // of data, in tables
	Filters, Keys       uint64 // filters that knew every key of their tables; the number of those keys
	Records             uint64 // of logs
	Edits               int    // of the manifest
}

// Damaged reports whether anything was found that is damaged.
func (r *CheckReport) Damaged() bool { return damaged(r.Findings) }

// Check reads all files of the store in dir, and reports everything that is wrong. It
// checks the checksums, the order of keys, counts and levels. It checks that every filter
// knows every key of its table, that no commit of the logs is missing, and that the
// manifest names the files that are there. It goes on behind damage, and works on stores
// that Open refuses. The caller owns the report.
//
// Damage is in the report. An error says why Check could not examine the store:
// it wraps fs.ErrNotExist if dir holds no store, shale.ErrElsewhere if tables of it are
// elsewhere, shale.ErrFormatTooNew if a newer version wrote it, and vfs.ErrEncrypted if the key of a file is missing or wrong.
func Check(ctx context.Context, dir string, opts *Options) (*CheckReport, error) {
	o := opts.withDefaults()
	dir, err := absolute(o.FS, dir) // the working directory may change meanwhile
	if err != nil {
		return nil, err
	}
	writer, err := writing(o, dir)
	if err != nil {
		return nil, err
	}
	for {
		c := &checker{writer: writer}
		if err := c.run(ctx, o, dir); err != nil {
			return nil, err
		}
		// A writer that came meanwhile, even if it has left again, may have replaced files,
		// which then look damaged. Check begins again, and then expects a writer.
		now, err := writing(o, dir)
		if err != nil {
			return nil, err
		}
		moved, err := c.moved(dir)
		if err != nil {
			return nil, err
		}
		if writer || !now && !moved {
			return c.report(), nil
		}
		writer = true
	}
}

// writing reports whether a program has the store open for writing.
func writing(o Options, dir string) (bool, error) {
	lock, err := keepOut(o.FS, dir)
	if errors.Is(err, shale.ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

// A checker is one attempt of Check. It reads the manifest first, then the tables that it
// names with their filters, then the logs.
type checker struct {
	s      *survey
	writer bool // a program writes to the store meanwhile
	read   Read
	audit  manifest.Audit // of the table that is read
}

// run examines the store once. Damage becomes findings of c.s.
func (c *checker) run(ctx context.Context, o Options, dir string) (err error) {
	if c.s, err = look(ctx, newSource(o), dir, false); err != nil {
		return err
	}
	c.read.Edits = c.s.salvaged.Edits
	c.read.Files = 2 // CURRENT and the manifest
	if c.s.state != nil {
		c.read.Bytes = c.s.state.Length
	}
	for _, r := range c.s.runs() {
		for _, t := range r.tables {
			if err := c.table(t); err != nil {
				return err
			}
		}
	}
	l, err := readLogs(c.s, c.writer)
	if err != nil {
		return err
	}
	c.read.Records, c.read.Logs = l.records, len(l.files)
	c.read.Files += len(l.files)
	c.read.Bytes += l.bytes
	l.judge(c.s.flushed())
	if !c.writer {
		c.s.noteStrays()
	}
	return base.ContextError(ctx)
}

// flushed returns the highest sequence number of the tables, and of range deletes that came with
// tables, as the manifest states it.
func (s *survey) flushed() (last base.Seq) {
	for _, r := range s.runs() {
		for _, t := range r.tables {
			last = max(last, t.MaxSeq)
		}
	}
	if s.state != nil {
		last = max(last, s.state.Version.Spans.Last())
	}
	return last
}

// table checks one table. If the table as a whole is not right, parts finds out
// what is damaged.
func (c *checker) table(t *manifest.Table) error {
	name := base.TableName(t.Num)
	m := &merge{s: c.s} // its method lost makes the findings
	side, err := c.openFilter(t)
	if err != nil {
		return err
	}
	if side != nil {
		defer side.Close() // only read
	}
	f, err := c.s.fs.Open(c.s.path(name))
	if err != nil {
		if failsHere(err) {
			return fmt.Errorf("repair: %w", err)
		}
		why := err
		if errors.Is(err, fs.ErrNotExist) {
			why = missing(name, "table named by the manifest")
		}
		m.lost(t, origin{}, sstable.Lost{Err: why, Entries: true})
		return nil
	}
	defer f.Close() // only read
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	c.read.Files++
	c.read.Tables++
	c.read.Bytes += size
	src := &aheadReader{file: f, size: size}
	// The manifest states size, checksum and numbers, so another table in the same
	// place is damage too.
	r, err := sstable.Open(src, sstable.ReaderOptions{
		Num: t.Num, StoreID: c.s.storeID, Seq: t.MaxSeq, Size: t.Size, Checksum: t.Checksum, NoFilter: true,
	})
	if err == nil {
		err = c.verify(t, r, side)
	}
	if err != nil {
		if !isDamage(err) {
			return fmt.Errorf("repair: %w", err)
		}
		return c.parts(t, src, err)
	}
	p := r.Props()
	if err := c.audit.End(); err != nil {
		c.s.add(found(name, err, Redundant))
	}
	c.read.Blocks += p.DataBlocks
	c.read.Entries += p.Entries
	if r.FilterBytes() > 0 {
		c.read.Filters++
		c.read.Keys += p.Keys
	}
	return nil
}

// A filterFile is an open filter file of a table, and its reader.
type filterFile struct {
	vfs.File
	sidecar *sstable.Sidecar
}

// openFilter opens and checks the filter file of a table. It returns nil if there is none, or
// if it is damaged, which becomes a finding. The caller closes it.
func (c *checker) openFilter(t *manifest.Table) (*filterFile, error) {
	if t.Sidecar == nil {
		return nil, nil
	}
	name := base.FilterName(t.Sidecar.Num)
	f, err := c.s.fs.Open(c.s.path(name))
	if err != nil {
		if failsHere(err) {
			return nil, fmt.Errorf("repair: %w", err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = missing(name, "filter named by the manifest")
		}
		c.s.add(found(name, err, Redundant))
		return nil, nil
	}
	c.read.Files++
	c.read.Bytes += t.Sidecar.Size
	b := &filterFile{f, sstable.NewSidecar(f, sstable.SidecarInfo{
		Num: t.Sidecar.Num, StoreID: c.s.storeID, Table: t.Num, TableChecksum: t.Checksum, Size: t.Sidecar.Size, Checksum: t.Sidecar.Checksum,
	})}
	if err := b.sidecar.Check(); err != nil {
		c.s.add(found(name, err, Redundant))
		_ = f.Close() // only read
		return nil, nil
	}
	return b, nil
}

// verify checks the table, and with it the filter file if there is one. An error is
// about the table. A filter that lacks keys of the table is a finding, and the
// table is then checked alone.
func (c *checker) verify(t *manifest.Table, r *sstable.Reader, side *filterFile) error {
	verify := func(side *sstable.Sidecar) error {
		c.audit.Begin(t, c.s.state.Version.Spans)
		return r.VerifyWith(c.s.ctx, side, c.audit.Entry)
	}
	if side == nil {
		return verify(nil)
	}
	err := verify(side.sidecar)
	if name := base.FilterName(t.Sidecar.Num); err != nil && isOf(err, name) {
		c.s.add(found(name, err, Redundant))
		return verify(nil)
	}
	if err == nil {
		c.read.Filters++
		c.read.Keys += r.Props().Keys
	}
	return err
}

// isOf reports whether err is damage to the file of this name.
func isOf(err error, name string) bool {
	var damage *base.CorruptionError
	return errors.As(err, &damage) && damage.File == name
}

// parts reads a table that is not right, block by block, and makes findings of
// everything that is damaged. cause is why the table as a whole is not right. It becomes
// the finding if all parts are right.
func (c *checker) parts(t *manifest.Table, src *aheadReader, cause error) error {
	before := len(c.s.findings)
	m := &merge{s: c.s}
	r, err := sstable.Salvage(c.s.ctx, src, src.size, sstable.SalvageOptions{
		Num: t.Num, StoreID: c.s.storeID, Seq: t.MaxSeq, Size: t.Size, Checksum: t.Checksum, Entries: t.Entries, Filter: true,
		Lost: func(l sstable.Lost) { m.lost(t, origin{}, l) },
	})
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	// To read is enough: Lost is called for each damaged part.
	for kv := r.First(); kv != nil; kv = r.Next() {
	}
	if err := errors.Join(r.Err(), r.Close()); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	blocks, entries := r.Counts()
	c.read.Blocks += blocks
	c.read.Entries += entries
	if len(c.s.findings) == before {
		c.s.add(found(base.TableName(t.Num), cause, Redundant))
	}
	return nil
}

// moved reports whether a writer has changed the store since look, so that Check has to
// begin again. If a writer was expected, it removes the findings in files that the
// writer has replaced instead.
func (c *checker) moved(dir string) (bool, error) {
	now, err := manifest.Salvage(c.s.fs, dir)
	if err != nil {
		return false, fmt.Errorf("repair: %s: %w", dir, err)
	}
	was := c.s.salvaged.State
	switch {
	case now.State == nil || was == nil:
		return now.State != was, nil
	case !c.writer:
		return now.State.ManifestNum != was.ManifestNum || now.State.Length != was.Length, nil
	}
	// Files that the manifest no longer names were obsolete.
	live := make(map[string]bool)
	for _, level := range now.State.Version.Levels {
		for _, r := range level.Runs {
			for _, t := range r.Tables {
				live[base.TableName(t.Num)] = true
				if t.Sidecar != nil {
					live[base.FilterName(t.Sidecar.Num)] = true
				}
			}
		}
	}
	c.s.findings = slices.DeleteFunc(c.s.findings, func(f Finding) bool {
		typ, num, ok := base.ParseFileName(f.File)
		return ok && ((typ == base.FileTable || typ == base.FileFilter) && !live[f.File] || typ == base.FileLog && num < now.State.MinLog)
	})
	return false, nil
}

// report makes the report of the attempt.
func (c *checker) report() *CheckReport {
	r := &CheckReport{Runs: len(c.s.runs()), Writer: c.writer, Read: c.read, Findings: c.s.findings}
	if c.s.state != nil {
		r.Manifest = base.ManifestName(c.s.state.ManifestNum)
	}
	return r
}
