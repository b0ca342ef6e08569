package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A logView describes the content of a log.
//
// err says why the log can't be read further, and Result.Damage is damage that the reader of logs
// has found itself. A log that was prepared and never used is neither.
type logView struct {
	num      base.FileNum
	obsolete bool // its entries are in tables
	ops      uint64
	first    base.Seq // 0: the log is empty
	wal.Result
	err error // why it can't be read
}

// known returns the length of a log that the manifest or the next log states, or -1 if neither
// does.
//
// Without that length a log may end anywhere, since a crash can tear its end. With it, a log that
// ends earlier is damaged: what it lacks was synced once.
func (f *folder) known(num base.FileNum) int64 {
	if s := f.sal.State; s != nil {
		for _, l := range s.Logs {
			if l.Num == num && l.Sealed {
				return l.Length
			}
		}
	}
	for _, next := range f.numbers(base.FileLog) {
		if next <= num {
			continue
		}
		if h, err := wal.ReadHeader(f, f.dir, next, f.storeID, 0); err == nil && h.Prev == num {
			return h.PrevLen
		}
	}
	return -1
}

// readLog calls fn for each batch of a log, up to the first record that does not check. It
// reports damage in the logView. Its error is that of fn or of the device.
//
// It works on a log that another program is writing. The end then looks torn, or a record behind
// the end is from an earlier use of the file: neither is damage, and the view says so.
func (f *folder) readLog(ctx context.Context, num base.FileNum, fn func(seq base.Seq, b *shale.Batch) error) (logView, error) {
	v := logView{num: num, obsolete: f.sal.State != nil && num < f.sal.State.MinLog}
	storeID := f.storeID
	if h, err := wal.Identify(f, f.dir, num); err == nil && storeID == 0 {
		storeID = h.StoreID
	}
	// With Salvage a reader goes on after damage, as far as it can tell where the next record
	// begins.
	o := wal.ReadOptions{Known: f.known(num), Salvage: true}
	if f.sal.State != nil {
		o.Session = f.sal.State.SessionOf(num)
	}
	var err error
	v.Result, err = wal.Read(f, f.dir, num, storeID, o, func(payload []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		seq, b, err := shale.DecodeBatch(payload)
		if err != nil {
			return base.Corruption(base.LogName(num), -1, "log record", err)
		}
		if v.first == 0 {
			v.first = base.Seq(seq)
		}
		if _, _, mark := b.Ingested(); !mark {
			v.ops += uint64(b.Len())
		}
		return fn(base.Seq(seq), b)
	})
	// A log file is made before it is needed. After a crash it may have a header that was never
	// written, or one of the log that used the file before.
	if v.Damage != nil && v.Records == 0 {
		if _, header := wal.ReadHeader(f, f.dir, num, storeID, 0); errors.Is(header, wal.ErrNeverUsed) && f.known(num) < 0 {
			v.Damage, v.err = nil, wal.ErrNeverUsed
		}
	}
	if isDamage(err) {
		v.err, err = err, nil
	}
	if v.damaged() && err == nil {
		// A writer may have recycled the file for another log meanwhile. Then this log is gone.
		var file vfs.File
		if file, err = f.Open(f.path(base.LogName(num))); err == nil {
			err = file.Close()
		}
	}
	return v, err
}

// state returns how a log ends, in words.
//
// The words answer one question: is anything missing that was promised?
func (v *logView) state(size int64) string {
	switch {
	case errors.Is(v.err, wal.ErrNeverUsed):
		return "unused: prepared for the next writes, or a crash met its creation"
	case v.err != nil:
		return "DAMAGED: " + plain(v.err)
	case v.Damage != nil:
		return "DAMAGED: " + plain(v.Damage)
	case v.Sealed:
		return "sealed: nothing is missing"
	case v.Torn:
		return fmt.Sprintf("torn: from %d on stand parts of a write that was cut short, or is under way; it was never promised, and does not count", v.Length)
	case size > v.Length:
		return fmt.Sprintf("open: ends whole at %d, the rest of the file is reserved", v.Length)
	}
	return "open: ends whole"
}

// damaged reports whether the log lacks something that was promised.
func (v *logView) damaged() bool {
	return v.Damage != nil || v.err != nil && !errors.Is(v.err, wal.ErrNeverUsed)
}

// liveLogs returns the logs that are in the folder, and those that should be.
//
// A log that should be there and is not is damage, which readLog reports when it does not find the
// file.
func (f *folder) liveLogs() []base.FileNum {
	list := f.numbers(base.FileLog)
	if s := f.sal.State; s != nil {
		for _, l := range s.Logs {
			if l.Num >= s.MinLog && !slices.Contains(list, l.Num) {
				list = append(list, l.Num)
			}
		}
	}
	slices.Sort(list)
	return list
}

// walCommand lists the logs or shows one. It reads files and does not open the store, so it works
// next to a writer, and on a store that does not open.
//
// For example:
//
//	log  needed     size  records  operations  first seq  last seq  end
//	000005  yes     4.0 KiB        1           1          5         5  sealed: nothing is missing
func walCommand() *Command {
	var last int
	c := newCommand("wal [NUMBER]", needsNothing, "the logs, or the operations in one", `
Prints a line for each log: whether it is needed, its records, operations and sequence numbers, and how it
ends. With a NUMBER it prints the operations of that log. A crash can leave a log with a torn end; what is torn
was never promised, and is not damage. Status 1 if something is damaged.`)
	c.count(&last, "last", "with NUMBER: only the last N operations")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		f, err := s.lookInto()
		if err != nil {
			return Failed, err
		}
		if len(words) > 0 {
			return logRecords(ctx, s, f, words[0], last)
		}
		if last > 0 {
			return Failed, errors.New("wal: --last needs the NUMBER of a log")
		}
		// A log is read up to its end for this, since only its records know how many operations it
		// has.
		g := output.NewGrid(">log", "needed", ">size", ">records", ">operations", ">first seq", ">last seq", "end")
		st := Found
		for _, num := range f.liveLogs() {
			size, err := f.size(base.LogName(num))
			if err != nil {
				return Failed, err
			}
			v, err := f.readLog(ctx, num, func(base.Seq, *shale.Batch) error { return nil })
			if errors.Is(err, fs.ErrNotExist) {
				err = f.missing(base.LogName(num))
			}
			switch {
			case errors.Is(err, errMoved):
				continue // a writer has removed it
			case isDamage(err):
				v.err = err
			case err != nil:
				return Failed, err
			}
			needed := "yes"
			if v.obsolete {
				needed = "no, in tables"
			}
			first, last := output.NoCell("-"), output.NoCell("-")
			if v.Records > 0 {
				first, last = output.NumberCell(v.first), output.NumberCell(v.LastSeq)
			}
			if v.damaged() {
				st = Absent
			}
			g.Row(tableName(uint64(num)), needed, output.SizeCell(size), v.Records, v.ops, first, last, v.state(size))
		}
		return st, s.Show(g)
	})
}

// logRecords shows the operations of one log.
//
// An ingestion has one record in the log, which only says which keys its tables have: the range is
// shown.
func logRecords(ctx context.Context, s *Session, f *folder, log Word, last int) (Status, error) {
	num, err := parseNumber(log.Text, base.FileLog, "log")
	if err != nil {
		return Failed, err
	}
	// A record is a commit: its operations became visible together. Values are not shown, only
	// their sizes.
	g := output.NewGrid(">record", ">seq", "operation", "key", ">value")
	g.Last(last)
	record := 0
	v, err := f.readLog(ctx, num, func(seq base.Seq, b *shale.Batch) error {
		record++
		if least, greatest, ok := b.Ingested(); ok {
			g.Row(record, output.NumberCell(seq), "ingestion", output.ByteCell(slices.Concat(least, []byte(" .. "), greatest)), "")
		}
		for op := range b.Ops() {
			key := output.ByteCell(bytes.Clone(op.Key))
			if op.Kind == shale.OpDeleteRange {
				key = output.RangeCell(bytes.Clone(op.Key), bytes.Clone(op.Value))
			}
			g.Row(record, output.NumberCell(seq), kindName(kindOf(op)), key, valueSize(base.Kind(op.Kind), len(op.Value)))
			seq++
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Failed, &sentence{fmt.Sprintf("there is no log %s; wal lists them", base.LogName(num)), fs.ErrNotExist}
	}
	if err != nil {
		return Failed, err
	}
	if err := s.Show(g); err != nil {
		return Failed, err
	}
	size, err := f.size(base.LogName(num))
	if err != nil {
		return Failed, err
	}
	s.note("%s of %s bytes: %s", base.LogName(num), output.Number(size), v.state(size))
	return foundIf(!v.damaged()), nil
}

// kindOf returns the kind of the entry that an operation makes.
func kindOf(op shale.Op) base.Kind {
	if !op.ExpiresAt.IsZero() {
		return base.KindExpiring
	}
	return base.Kind(op.Kind)
}

// deletes reports whether k is the kind of a deletion, of one key or of a range.
func deletes(k base.Kind) bool { return k == base.KindDelete || k == base.KindRangeDelete }

// valueLen returns the length of the value of an entry, without the time at which it expires.
func valueLen(k base.Kind, stored []byte) int {
	if k == base.KindExpiring {
		_, stored = base.CutExpiry(stored)
	}
	return len(stored)
}

// valueSize returns a cell with the size of a value. Deletions have no value.
func valueSize(k base.Kind, n int) output.Cell {
	if deletes(k) {
		return output.NoCell("-")
	}
	return output.Cell{Text: output.Number(n) + " B", Raw: int64(n)}
}
