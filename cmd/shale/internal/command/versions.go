package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A sighting is one version of a key in one file.
//
// There may be several in one file: a table keeps older versions as long as a snapshot needs them.
type sighting struct {
	seq     base.Seq
	kind    base.Kind
	size    int       // length of the value
	expires time.Time // of a value that expires
	file    string
	where   string // "log", "L3 run 0"
	live    bool   // the store uses the file; if not, gone says why
	gone    string
	age     int // of live files: a lower number is newer
}

// over reports whether the version is a deletion by now.
func (s *sighting) over() bool {
	return deletes(s.kind) || s.kind == base.KindExpiring && !s.expires.After(time.Now())
}

// A finder looks for a key in all files of a store.
//
// One finder is used for one look at the store. If files disappear meanwhile, settled begins again
// with another.
type finder struct {
	f       *folder
	key     []byte
	list    []sighting
	tables  int // number of tables of the store
	covered int // of these, tables whose range has the key
	denied  int // of these, tables whose filter says no
	damage  int
	note    func(text string, args ...any)
}

// versions shows all versions of a key in all files, even those that a lookup would not see, for
// explain --versions.
//
// It is for the question why a get does not return what somebody has written: the version may be
// hidden by a newer one, deleted, only in a log that is not needed any more, or the filter of its
// table may be wrong.
//
// For example, of a key that was put twice:
//
//	seq  kind  value  file        place     seen by get
//	3  put     3 B  000006.sst  L0 run 0  yes
//	1  put     5 B  000004.sst  L0 run 1  no: seq 3 in 000006.sst is newer
func (s *Session) versions(ctx context.Context, key []byte) (Status, error) {
	var x finder
	err := s.settled(func(f *folder) error {
		x = finder{f: f, key: key, note: s.note}
		for _, look := range []func(context.Context) error{x.inLogs, x.inManifest, x.inTables} {
			if err := look(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Failed, err
	}
	seen := x.sort()
	g := output.NewGrid(">seq", "kind", ">value", "file", "place", "seen by get")
	for i := range x.list {
		v := &x.list[i]
		g.Row(output.NumberCell(v.seq), kindName(v.kind), valueSize(v.kind, v.size), v.file, v.where, x.seen(i, seen))
	}
	if len(x.list) > 0 {
		if err := s.Show(g); err != nil {
			return Failed, err
		}
	}
	s.note("%s in %s and %s; the key is in the range of %d of the tables, and %d of their filters say no",
		output.Plural(len(x.list), "version"), output.Plural(len(x.f.numbers(base.FileLog)), "log"), output.Plural(x.tables, "table"), x.covered, x.denied)
	if x.damage > 0 {
		s.note("shale: a get may fail or see another version, because the damaged files may have more versions")
	}
	return foundIf(seen >= 0 && !x.list[seen].over()), nil
}

// inLogs searches all logs, the newest ones last. A log that is not needed any more may still be
// there: its entries are in tables too, and a get does not look at it.
func (x *finder) inLogs(ctx context.Context) error {
	for _, num := range x.f.liveLogs() {
		at := len(x.list)
		v, err := x.f.readLog(ctx, num, func(seq base.Seq, b *shale.Batch) error {
			for op := range b.Ops() {
				at := bytes.Equal(op.Key, x.key)
				if op.Kind == shale.OpDeleteRange {
					at = bytes.Compare(op.Key, x.key) <= 0 && (op.Value == nil || bytes.Compare(x.key, op.Value) < 0)
				}
				if at {
					x.list = append(x.list, sighting{seq: seq, kind: kindOf(op), expires: op.ExpiresAt, size: len(op.Value), file: base.LogName(num), where: "log", live: true})
				}
				seq++
			}
			return nil
		})
		if errors.Is(err, fs.ErrNotExist) && !v.obsolete {
			if err = x.f.missing(base.LogName(num)); isDamage(err) {
				x.damaged(err)
			}
		}
		if err != nil && !isDamage(err) && !v.obsolete {
			return err
		}
		if v.damaged() {
			x.damaged(errors.New(v.state(0)))
		}
		// Its versions are listed all the same: they show what was written when.
		if v.obsolete {
			for i := range x.list[at:] {
				x.list[at+i].live, x.list[at+i].gone = false, "the log is not needed any more"
			}
		}
	}
	return nil
}

// inManifest searches the range deletes that the manifest has.
func (x *finder) inManifest(context.Context) error {
	for d := range x.f.version().Spans.Overlapping(x.key, append(bytes.Clone(x.key), 0)) {
		for seq := range d.Seqs() {
			x.list = append(x.list, sighting{seq: seq, kind: base.KindRangeDelete,
				file: base.ManifestName(x.f.sal.State.ManifestNum), where: "range delete", live: true})
		}
	}
	return nil
}

// damaged reports damage, and remembers that the answer may be incomplete.
func (x *finder) damaged(err error) {
	x.damage++
	x.note("shale: %s", plain(err))
}

// inTables searches the tables that the manifest names.
//
// Tables whose range does not have the key are passed over, as a get does. It asks the others in
// the order of a get, but does not stop at the first version.
func (x *finder) inTables(ctx context.Context) error {
	places := x.f.places()
	x.tables = len(places)
	for i, p := range places {
		t := p.table
		if bytes.Compare(x.key, t.Smallest) < 0 || bytes.Compare(x.key, t.Largest) > 0 {
			continue
		}
		x.covered++
		if err := ctx.Err(); err != nil {
			return err
		}
		s := sighting{file: base.TableName(t.Num), where: p.String(), live: true, age: i + 1}
		// The filter is asked, but its answer does not end the search: find is there to see whether
		// it is right.
		no, err := x.inTable(&p, s)
		if no {
			x.denied++
		}
		there := !errors.Is(err, fs.ErrNotExist)
		if !there {
			err = x.f.missing(base.TableName(t.Num))
		}
		if err != nil && !isDamage(err) {
			return err
		}
		if err != nil {
			x.damaged(err)
		}
		// The index of a damaged table can't be trusted. All blocks are read instead, and those
		// whose checksums are right are searched.
		if err != nil && there {
			if err := x.through(ctx, t.Num, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTable records the versions in an undamaged table, and reports whether its filter says that
// there is none.
//
// If an error comes in the middle, it forgets what it has found here: through will find the same
// again.
func (x *finder) inTable(p *place, s sighting) (no bool, err error) {
	r, release, err := x.f.reader(p.table)
	if err != nil {
		return false, err
	}
	defer release()
	if f := r.Filter(); f != nil {
		no = !f.MayContainHash(f.Hasher().Hash(x.key))
	}
	it := r.NewIterator(nil)
	defer it.Close() // it only reads
	at := len(x.list)
	for kv := it.SeekGE(x.key, base.MaxSeq); kv != nil && bytes.Equal(kv.UserKey, x.key); kv = it.Next() {
		x.list = append(x.list, s.of(kv))
	}
	if err := it.Err(); err != nil {
		x.list = x.list[:at]
		return no, err
	}
	return no, nil
}

// of returns the sighting with sequence number, kind and size of an entry.
func (s sighting) of(kv *base.KV) sighting {
	value := kv.Value
	if kv.Kind() == base.KindExpiring {
		ms, behind := base.CutExpiry(value)
		s.expires, value = time.UnixMilli(ms), behind
	}
	s.seq, s.kind, s.size = kv.Seq(), kv.Kind(), len(value)
	return s
}

// through reads all blocks of a damaged table whose checksums are correct.
//
// It is slow for a large table, and only used where the index is of no use.
func (x *finder) through(ctx context.Context, num base.FileNum, s sighting) error {
	return x.f.withTable(num, func(src vfs.File, size int64) error {
		v, err := sstable.Salvage(ctx, src, size, x.f.salvageOptions(num))
		if err != nil {
			return err
		}
		defer v.Close() // it only reads
		for kv := v.First(); kv != nil; kv = v.Next() {
			if bytes.Equal(kv.UserKey, x.key) {
				x.list = append(x.list, s.of(kv))
			}
		}
		return v.Err()
	})
}

// sort sorts the versions in the order in which a lookup finds them. It returns the index of
// the version that the lookup sees, or -1.
//
// A lookup asks memtables, then runs from the newest to the oldest, and takes the first version
// that it meets. With sequence numbers in descending order, that is the first one in a file that
// the store uses.
func (x *finder) sort() int {
	slices.SortStableFunc(x.list, func(a, b sighting) int {
		return cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(a.age, b.age))
	})
	return slices.IndexFunc(x.list, func(s sighting) bool { return s.live })
}

// seen says whether a lookup sees version i, and if not, why. first is the version that it
// sees.
//
// The same write may be in a log and in a table, with the same sequence number. Then the table is
// the copy.
func (x *finder) seen(i, first int) string {
	v := &x.list[i]
	switch {
	case !v.live:
		return "no: " + v.gone
	case i == first && deletes(v.kind):
		return "yes: it is deleted"
	case i == first && v.over():
		return "yes: it has expired"
	case i == first:
		return "yes"
	case v.seq == x.list[first].seq && v.seq > 0:
		return "no: the same write is in " + x.list[first].file
	}
	return fmt.Sprintf("no: seq %d in %s is newer", x.list[first].seq, x.list[first].file)
}
