package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A closing is a store that is about to be closed. Its methods make calls of the store and
// check their answers.
type closing struct {
	db   *DB
	snap *Snapshot // taken before the writers began
	ctx  context.Context
	n    atomic.Int64 // for names and keys that are used once
}

// closingKeys is how many keys the store has. Key i has the value closingValue(i, 0) in the
// snapshot, and may have that of a later round in the store.
const closingKeys = 200

func closingKey(i int) []byte { return fmt.Appendf(nil, "k%04d", i%closingKeys) }

func closingValue(i int, round int) []byte {
	return fmt.Appendf(nil, "k%04d of round %d", i%closingKeys, round)
}

// key returns the next key in turn, and its number.
func (c *closing) key() (int, []byte) {
	i := int(c.n.Add(1)) % closingKeys
	return i, closingKey(i)
}

// wantValue returns an error unless the value is one that key i may have for the reader.
func (c *closing) wantValue(r Reader, i int, value []byte) error {
	want := closingValue(i, 0)
	if _, snapshot := r.(*Snapshot); !snapshot {
		want = want[:len(want)-1] // without the digit of the round
		value = value[:min(len(value), len(want))]
	}
	if !bytes.Equal(value, want) {
		return fmt.Errorf("value %q of key %d, want %q", value, i, want)
	}
	return nil
}

// The next methods make one call of a Reader each, and check its answer.

func (c *closing) get(r Reader) error {
	i, key := c.key()
	v, err := r.Get(key)
	if err != nil {
		return err
	}
	return c.wantValue(r, i, v)
}

func (c *closing) appendValue(r Reader) error {
	i, key := c.key()
	v, err := r.AppendValue([]byte("mine"), key)
	if !bytes.HasPrefix(v, []byte("mine")) {
		return fmt.Errorf("%q, %v: AppendValue took away what was there", v, err)
	}
	if err != nil {
		return err
	}
	return c.wantValue(r, i, v[4:])
}

func (c *closing) viewValue(r Reader) (err error) {
	i, key := c.key()
	if err := r.ViewValue(key, func(v []byte) error { err = c.wantValue(r, i, v); return nil }); err != nil {
		return err
	}
	return err
}

func (c *closing) has(r Reader) error {
	_, key := c.key()
	has, err := r.Has(key)
	if err == nil && !has {
		return fmt.Errorf("%s is absent", key)
	}
	return err
}

func (c *closing) scan(r Reader) error {
	n := 0
	for e, err := range r.Scan(Prefix("k")) {
		if err != nil {
			return err
		}
		if !bytes.Equal(e.Key, closingKey(n)) {
			return fmt.Errorf("entry %d of Scan is %q", n, e.Key)
		}
		if err := c.wantValue(r, n, e.Value); err != nil {
			return err
		}
		n++
	}
	if n != closingKeys {
		return fmt.Errorf("Scan ended after %d of %d entries without an error", n, closingKeys)
	}
	return nil
}

// walk moves an iterator from one end over all entries to the other, and past it.
func (c *closing) walk(r Reader) error {
	for _, back := range []bool{false, true} {
		err := c.iterate(r, func(it *Iterator) error {
			move, step := it.First, it.Next
			if back {
				move, step = it.Last, it.Prev
			}
			n := 0
			for ok := move(); ok; ok = step() {
				n++
			}
			if it.Err() == nil && n != closingKeys {
				return fmt.Errorf("the iterator ended after %d of %d entries without an error", n, closingKeys)
			}
			step()
			return it.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// iterate gives fn an iterator of r, and returns its error, or that of Close.
func (c *closing) iterate(r Reader, fn func(it *Iterator) error) error {
	it := r.NewIterator(Prefix("k"))
	err := fn(it)
	if cerr := it.Close(); cerr != nil {
		return fmt.Errorf("Iterator.Close: %w", cerr)
	}
	return err
}

// moved checks where a movement of an iterator ended: on entry i, or with an error.
func (c *closing) moved(r Reader, it *Iterator, ok bool, i int) error {
	switch err := it.Err(); {
	case !ok && err == nil:
		return errors.New("the movement ended nowhere, without an error")
	case !ok:
		if it.Valid() {
			return fmt.Errorf("Valid after %w", err)
		}
		return err
	case err != nil || !it.Valid() || !bytes.Equal(it.Key(), closingKey(i)):
		return fmt.Errorf("at %q, Valid %v, Err %v; want %s", it.Key(), it.Valid(), err, closingKey(i))
	}
	return c.wantValue(r, i, it.Value())
}

// iteratorCalls are the calls of an Iterator of r.
func iteratorCalls(pick func(c *closing) Reader) map[string]func(c *closing) error {
	move := func(fn func(it *Iterator) (ok bool, i int)) func(c *closing) error {
		return func(c *closing) error {
			r := pick(c)
			return c.iterate(r, func(it *Iterator) error {
				ok, i := fn(it)
				return c.moved(r, it, ok, i)
			})
		}
	}
	return map[string]func(c *closing) error{
		"First":     move(func(it *Iterator) (bool, int) { return it.First(), 0 }),
		"Last":      move(func(it *Iterator) (bool, int) { return it.Last(), closingKeys - 1 }),
		"SeekGE":    move(func(it *Iterator) (bool, int) { return it.SeekGE(closingKey(7)), 7 }),
		"SeekLT":    move(func(it *Iterator) (bool, int) { return it.SeekLT(closingKey(7)), 6 }),
		"Next":      move(func(it *Iterator) (bool, int) { return it.First() && it.Next(), 1 }),
		"Prev":      move(func(it *Iterator) (bool, int) { return it.Last() && it.Prev(), closingKeys - 2 }),
		"Key":       func(c *closing) error { return c.walk(pick(c)) },
		"Err":       func(c *closing) error { return c.walk(pick(c)) },
		"Value":     move(func(it *Iterator) (bool, int) { it.First(); return it.Valid(), 0 }),
		"Valid":     move(func(it *Iterator) (bool, int) { it.SeekGE(closingKey(9)); return it.Valid(), 9 }),
		"ExpiresAt": move(func(it *Iterator) (bool, int) { return it.First() && it.ExpiresAt().IsZero(), 0 }),
	}
}

// closingCalls has a row for each exported method, except Close, of each exported type that
// belongs to a store. A row makes the call and checks its answer. If the call returns
// ErrClosed, so does the row.
var closingCalls = func() map[string]func(c *closing) error {
	db := func(c *closing) Reader { return c.db }
	snap := func(c *closing) Reader { return c.snap }
	calls := map[string]func(c *closing) error{
		"DB.Inspect":     func(c *closing) error { _ = c.db.Inspect(); return nil },
		"DB.Put":         func(c *closing) error { return c.db.Put(fmt.Appendf(nil, "put%d", c.n.Add(1)), []byte("v")) },
		"DB.Delete":      func(c *closing) error { return c.db.Delete([]byte("gone")) },
		"DB.DeleteRange": func(c *closing) error { return c.db.DeleteRange([]byte("gone"), []byte("gone!")) },
		"DB.Write": func(c *closing) error {
			b := new(Batch)
			b.SetDurability(Durability(c.n.Add(1) % 3))
			if err := errors.Join(b.Put([]byte("written"), nil), b.Delete([]byte("gone")), b.Put([]byte("written"), []byte("v"))); err != nil {
				return err
			}
			return c.db.Write(c.ctx, b)
		},
		"DB.PutIfAbsent": func(c *closing) error {
			key := fmt.Appendf(nil, "absent%d", c.n.Add(1))
			if did, err := c.db.PutIfAbsent(key, key); err != nil || !did {
				return orWrong(err, "PutIfAbsent of a fresh key did nothing")
			}
			if did, err := c.db.PutIfAbsent(key, key); err != nil || did {
				return orWrong(err, "PutIfAbsent overwrote a key")
			}
			return nil
		},
		"DB.Ingest": func(c *closing) error {
			n := c.n.Add(1)
			return c.db.Ingest(c.ctx, func(yield func(key, value []byte) bool) {
				for i := range 300 {
					key := fmt.Appendf(nil, "ingested%d-%04d", n, i)
					if !yield(key, key) {
						return
					}
				}
			})
		},
		"DB.Changes":     changesBesideClose,
		"DB.Get":         func(c *closing) error { return c.get(c.db) },
		"DB.AppendValue": func(c *closing) error { return c.appendValue(c.db) },
		"DB.ViewValue":   func(c *closing) error { return c.viewValue(c.db) },
		"DB.Has":         func(c *closing) error { return c.has(c.db) },
		"DB.Scan":        func(c *closing) error { return c.scan(c.db) },
		"DB.NewIterator": func(c *closing) error { return c.walk(c.db) },
		"DB.MayContain": func(c *closing) error {
			if _, key := c.key(); !c.db.MayContain(key) {
				return errors.New("MayContain denies a key that is there")
			}
			return nil
		},
		"DB.MayContainMany": func(c *closing) error {
			_, key := c.key()
			out := make([]bool, 2)
			if c.db.MayContainMany([][]byte{key}, out); !out[0] || !out[1] {
				return errors.New("MayContainMany denies a key that is there")
			}
			return nil
		},
		"DB.GetMany": func(c *closing) error {
			var wrong error
			keys := [][]byte{closingKey(5), {0}, closingKey(3)}
			err := c.db.GetMany(keys, func(i int, value []byte, found bool) error {
				if found != (i != 1) {
					wrong = fmt.Errorf("GetMany: %s is found: %v", keys[i], found)
				} else if found {
					wrong = errors.Join(wrong, c.wantValue(c.db, 5-i, value))
				}
				return nil
			})
			if err == nil {
				err = wrong
			}
			return err
		},
		"Inspector.Explain": func(c *closing) error {
			i, key := c.key()
			x, err := c.db.Inspect().Explain(key)
			if err != nil {
				return err
			}
			return c.wantValue(c.db, i, x.Value)
		},
		"DB.Snapshot": func(c *closing) error {
			s, err := c.db.Snapshot()
			if err != nil {
				return err
			}
			_, key := c.key()
			_, err = s.Get(key)
			if cerr := s.Close(); cerr != nil {
				return fmt.Errorf("Snapshot.Close: %v", cerr)
			}
			if _, after := s.Get(key); after != ErrClosed {
				return fmt.Errorf("Get of a closed snapshot: %v", after)
			}
			return err
		},
		"DB.Sync":    func(c *closing) error { return c.db.Sync() },
		"DB.Flush":   func(c *closing) error { return c.db.Flush(c.ctx) },
		"DB.Compact": func(c *closing) error { return c.db.Compact(c.ctx, Range{}) },
		"DB.Resume":  func(c *closing) error { return c.db.Resume() },
		"DB.Verify":  func(c *closing) error { return c.db.Verify(c.ctx) },
		"DB.Checkpoint": func(c *closing) error {
			dir := filepath.Join("copies", fmt.Sprint(c.n.Add(1)))
			err := c.db.Checkpoint(dir)
			if _, serr := c.db.fs.Stat(dir); (err == nil) != (serr == nil) && errors.Is(serr, fs.ErrNotExist) != (err != nil) {
				return fmt.Errorf("Checkpoint says %v, and of its folder is said %v", err, serr)
			}
			return err
		},
		"Shipping.Hold": holdBesideClose,
		"Hold.State":    func(c *closing) error { return nil }, // see DB.Hold
		"Hold.Release":  func(c *closing) error { return nil },
		"Shipping.Position": func(c *closing) error {
			if p := ShippingOf(c.db).Position(); p.Log == 0 || p.Synced > p.Written {
				return fmt.Errorf("position %+v", p)
			}
			return nil
		},
		"Shipping.ChangesNow": changesNowBesideClose,
		"Shipping.HoldLogs": func(c *closing) error {
			ShippingOf(c.db).HoldLogs(ShippingOf(c.db).Position().Log)
			return nil
		},
		"Shipping.HeldLogBytes": func(c *closing) error {
			ShippingOf(c.db).HeldLogBytes()
			return nil
		},
		"Shipping.Elsewhere": func(c *closing) error { return ShippingOf(c.db).Elsewhere("the attic") },
		"Shipping.Evict":     func(c *closing) error { return ShippingOf(c.db).Evict(1 << 50) }, // of another: TestShipping_Evict
		"Shipping.Needs": func(c *closing) error {
			if ShippingOf(c.db).Needs(1 << 50) {
				return errors.New("a table is needed that is not there")
			}
			return nil
		},
		"Shipping.Sought":       soughtBesideClose,
		"Shipping.RaiseFileNum": func(c *closing) error { return ShippingOf(c.db).RaiseFileNum(c.ctx, 1<<36) },
		"DB.Advance": func(c *closing) error { // of a read-only handle: TestAdvance_BesideClose
			_, err := c.db.Advance(c.ctx)
			if err != nil && err != ErrClosed {
				return nil
			}
			return orWrong(err, "Advance of a handle that writes")
		},
		"Shipping.Fence": func(c *closing) error { return nil }, // it ends all writes: TestFence_
		"Inspector.ExportFilters": func(c *closing) error {
			_, err := c.db.Inspect().ExportFilters(c.ctx, io.Discard)
			return err
		},
		"Inspector.RebuildFilters": func(c *closing) error {
			_, err := c.db.Inspect().RebuildFilters(c.ctx)
			return err
		},
		"DB.Err":                 func(c *closing) error { return c.db.Err() },
		"DB.Metrics":             func(c *closing) error { _ = c.db.Metrics().String(); return nil },
		"Inspector.Tables":       func(c *closing) error { c.db.Inspect().Tables(); return nil },
		"Inspector.RecentEvents": func(c *closing) error { c.db.Inspect().RecentEvents(); return nil },

		"Snapshot.Get":         func(c *closing) error { return c.get(c.snap) },
		"Snapshot.AppendValue": func(c *closing) error { return c.appendValue(c.snap) },
		"Snapshot.ViewValue":   func(c *closing) error { return c.viewValue(c.snap) },
		"Snapshot.Has":         func(c *closing) error { return c.has(c.snap) },
		"Snapshot.Scan":        func(c *closing) error { return c.scan(c.snap) },
		"Snapshot.NewIterator": func(c *closing) error { return c.walk(c.snap) },
		"Snapshot.Seq": func(c *closing) error {
			if c.snap.Seq() != closingKeys {
				return fmt.Errorf("Seq is %d", c.snap.Seq())
			}
			return nil
		},
	}
	maps.Copy(calls, txnCalls)
	ofSnapshot := iteratorCalls(snap)
	for name, call := range iteratorCalls(db) {
		calls["Iterator."+name] = func(c *closing) error {
			if err := call(c); err != nil {
				return err
			}
			return ofSnapshot[name](c)
		}
	}
	return calls
}()

// storeTypes are the exported types that have methods. Those that hold a DB somewhere belong
// to a store, and their methods need rows in closingCalls.
var storeTypes = map[string]reflect.Type{
	"Batch":       reflect.TypeFor[*Batch](),
	"Change":      reflect.TypeFor[*Change](),
	"Compression": reflect.TypeFor[*Compression](),
	"DB":          reflect.TypeFor[*DB](),
	"Entry":       reflect.TypeFor[*Entry](),
	"EventKind":   reflect.TypeFor[*EventKind](),
	"ExplainStep": reflect.TypeFor[*ExplainStep](),
	"Explanation": reflect.TypeFor[*Explanation](),
	"Hold":        reflect.TypeFor[*Hold](),
	"Inspector":   reflect.TypeFor[Inspector](),
	"Iterator":    reflect.TypeFor[*Iterator](),
	"Metrics":     reflect.TypeFor[*Metrics](),
	"Op":          reflect.TypeFor[*Op](),
	"OpKind":      reflect.TypeFor[*OpKind](),
	"PrefixRule":  reflect.TypeFor[*PrefixRule](),
	"Range":       reflect.TypeFor[*Range](),
	"RangeDelete": reflect.TypeFor[*RangeDelete](),
	"Shipping":    reflect.TypeFor[Shipping](),
	"Snapshot":    reflect.TypeFor[*Snapshot](),
	"Sub":         reflect.TypeFor[*Sub](),
	"TableInfo":   reflect.TypeFor[*TableInfo](),
	"Txn":         reflect.TypeFor[*Txn](),
	"Verdict":     reflect.TypeFor[*Verdict](),
}

// holdsStore reports whether values of the type lead to a DB.
func holdsStore(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Chan:
		return t == reflect.TypeFor[*DB]() || holdsStore(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsStore(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// Each exported method of a type that belongs to a store has a row in closingCalls, and
// storeTypes lists all types.
func TestClose_EveryMethodHasARow(t *testing.T) {
	for _, name := range typesWithMethods(t) {
		if storeTypes[name] == nil {
			t.Errorf("storeTypes lacks %s", name)
		}
	}
	rows := make(map[string]bool)
	for name, typ := range storeTypes {
		if !holdsStore(typ, map[reflect.Type]bool{}) {
			continue
		}
		for i := range typ.NumMethod() {
			row := name + "." + typ.Method(i).Name
			if rows[row] = true; closingCalls[row] == nil && typ.Method(i).Name != "Close" {
				t.Errorf("closingCalls has no row for %s", row)
			}
		}
	}
	for row := range closingCalls {
		if !rows[row] {
			t.Errorf("closingCalls has a row for %s, which is not there", row)
		}
	}
	for _, name := range []string{"DB", "Snapshot", "Iterator"} {
		if !rows[name+".Close"] {
			t.Errorf("%s was not looked at", name)
		}
	}
}

// typesWithMethods returns the names of the exported types of the package that have
// exported methods.
func typesWithMethods(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			typ := f.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			if id, ok := typ.(*ast.Ident); ok && id.IsExported() && !slices.Contains(names, id.Name) {
				names = append(names, id.Name)
			}
		}
	}
	return names
}
