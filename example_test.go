package shale_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// open returns a store in memory, for the examples.
func open() *shale.DB {
	db, err := shale.Open("hosts.db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func put(w shale.Writer, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if err := w.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
			log.Fatal(err)
		}
	}
}

// The FS makes this store one in memory. Without it the store is the directory hosts.db.
func Example() {
	db, err := shale.Open("hosts.db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, host := range []string{"www.example.org", "www.example.com", "mail.example.org"} {
		if err := db.Put([]byte(host), []byte("seen")); err != nil {
			log.Fatal(err)
		}
	}
	known, err := db.Has([]byte("www.example.net")) // absent: no disk read
	fmt.Println(known, err)
	for entry, err := range db.Scan(shale.Prefix("www.")) {
		fmt.Printf("%s = %s, %v\n", entry.Key, entry.Value, err)
	}
	// Output:
	// false <nil>
	// www.example.com = seen, <nil>
	// www.example.org = seen, <nil>
}

// A store on disk takes a directory; with vfs.NewMem it lives in memory.
func ExampleOpen() {
	db, err := shale.Open("hosts.db", &shale.Options{
		FS:         vfs.NewMem(),
		Durability: shale.SyncPeriodic, // on disk within SyncEvery, not before each write returns
		FilterBits: 12,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Put([]byte("www.example.org"), []byte("seen"))
	fmt.Println(err)
	// Output: <nil>
}

func ExampleDB_Get() {
	db := open()
	defer db.Close()
	put(db, "www.example.org", "seen")
	value, err := db.Get([]byte("www.example.org"))
	fmt.Printf("%s %v\n", value, err)
	_, err = db.Get([]byte("www.example.net"))
	fmt.Println(errors.Is(err, shale.ErrNotFound))
	// Output:
	// seen <nil>
	// true
}

func ExampleDB_Delete() {
	db := open()
	defer db.Close()
	put(db, "www.example.org", "seen")
	fmt.Println(db.Delete([]byte("www.example.org")), db.Delete([]byte("never there")))
	fmt.Println(db.Has([]byte("www.example.org")))
	// Output:
	// <nil> <nil>
	// false <nil>
}

// The bounds of a prefix are those of its Range.
func ExampleDB_DeleteRange() {
	db := open()
	defer db.Close()
	put(db, "2025-12-31", "a", "2026-01-01", "b", "2026-07-14", "c", "2027-01-01", "d")
	year := shale.Prefix("2026-")
	fmt.Println(db.DeleteRange(year.Lower, year.Upper))
	for entry, err := range db.Scan(shale.Range{}) {
		fmt.Printf("%s %v\n", entry.Key, err)
	}
	// Output:
	// <nil>
	// 2025-12-31 <nil>
	// 2027-01-01 <nil>
}

// AppendValue and ViewValue read without allocating.
func ExampleDB_AppendValue() {
	db := open()
	defer db.Close()
	put(db, "a", "first", "b", "second")
	var buf []byte
	for _, k := range []string{"a", "b"} {
		var err error
		if buf, err = db.AppendValue(buf[:0], []byte(k)); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", buf)
	}
	err := db.ViewValue([]byte("a"), func(value []byte) error {
		fmt.Println(len(value), "bytes") // value is valid until this function returns
		return nil
	})
	fmt.Println(err)
	// Output:
	// first
	// second
	// 5 bytes
	// <nil>
}

// MayContain asks the filters alone: if it returns false, the key is certainly absent, and nothing was read.
func ExampleDB_MayContain() {
	db := open()
	defer db.Close()
	put(db, "evil.example.com", "malware")
	if err := db.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, host := range []string{"evil.example.com", "www.example.org"} {
		fmt.Println(host, db.MayContain([]byte(host)))
	}
	fmt.Println(db.Metrics().BlockReads, "blocks read")
	// Output:
	// evil.example.com true
	// www.example.org false
	// 0 blocks read
}

// A crawler claims each URL once, however many goroutines it has.
func ExampleDB_PutIfAbsent() {
	db := open()
	defer db.Close()
	for _, url := range []string{"/", "/about", "/"} {
		fresh, err := db.PutIfAbsent([]byte(url), nil)
		fmt.Println(url, fresh, err)
	}
	// Output:
	// / true <nil>
	// /about true <nil>
	// / false <nil>
}

// Two accounts change together, and only if nobody has changed them meanwhile: then the function runs again.
func ExampleDB_Update() {
	db := open()
	defer db.Close()
	put(db, "alice", "5", "bob", "1")
	err := db.Update(context.Background(), func(tx *shale.Txn) error {
		alice, err := tx.Get([]byte("alice"))
		if err != nil {
			return err
		}
		if string(alice) == "0" {
			return errors.New("alice has nothing left")
		}
		if err := tx.Put([]byte("alice"), []byte("4")); err != nil {
			return err
		}
		return tx.Put([]byte("bob"), []byte("2"))
	})
	fmt.Println(err)
	for entry := range db.Scan(shale.Range{}) {
		fmt.Printf("%s %s\n", entry.Key, entry.Value)
	}
	// Output:
	// <nil>
	// alice 4
	// bob 2
}

// All reads of fn show one state, whatever others write meanwhile.
func ExampleDB_View() {
	db := open()
	defer db.Close()
	put(db, "balance", "100")
	err := db.View(func(tx *shale.Txn) error {
		put(db, "balance", "70")
		value, err := tx.Get([]byte("balance"))
		fmt.Printf("%s\n", value)
		return err
	})
	fmt.Println(err)
	// Output:
	// 100
	// <nil>
}

// A transaction that has read what another writer has changed since is not committed. Update would try again.
func ExampleDB_Begin() {
	db := open()
	defer db.Close()
	tx, err := db.Begin(true)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Discard()
	taken, err := tx.Has([]byte("seat 12"))
	fmt.Println(taken, err)
	put(tx, "seat 12", "Ada")
	put(db, "seat 12", "Grace") // another writer is faster
	fmt.Println(errors.Is(tx.Commit(context.Background()), shale.ErrConflict))
	// Output:
	// false <nil>
	// true
}

func ExampleDB_Sub() {
	db := open()
	defer db.Close()
	users, orders := db.Sub("users/"), db.Sub("orders/")
	put(users, "1", "Ada")
	put(orders, "1", "a book")
	for entry := range users.Scan(shale.Range{}) {
		fmt.Printf("%s %s\n", entry.Key, entry.Value)
	}
	fmt.Println(db.Has([]byte("orders/1")))
	// Output:
	// 1 Ada
	// true <nil>
}

func ExampleDB_GetMany() {
	db := open()
	defer db.Close()
	put(db, "a", "1", "c", "3")
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	err := db.GetMany(keys, func(i int, value []byte, found bool) error {
		fmt.Printf("%s %q %v\n", keys[i], value, found)
		return nil
	})
	fmt.Println(err)
	// Output:
	// a "1" true
	// b "" false
	// c "3" true
	// <nil>
}

// All changes of a batch are there after a crash, or none.
func ExampleDB_Write() {
	db := open()
	defer db.Close()
	put(db, "balance/ann", "100", "balance/bob", "0")
	var b shale.Batch
	put(&b, "balance/ann", "70", "balance/bob", "30")
	if err := b.Delete([]byte("transfer/1")); err != nil {
		log.Fatal(err)
	}
	b.SetDurability(shale.SyncEach)
	if err := db.Write(context.Background(), &b); err != nil {
		log.Fatal(err)
	}
	for e := range db.Scan(shale.Prefix("balance/")) {
		fmt.Printf("%s %s\n", e.Key, e.Value)
	}
	// Output:
	// balance/ann 70
	// balance/bob 30
}

func ExampleDB_Scan() {
	db := open()
	defer db.Close()
	put(db, "a", "1", "b/1", "2", "b/2", "3", "c", "4")
	show := func(r shale.Range) {
		for e, err := range db.Scan(r) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s=%s;", e.Key, e.Value)
		}
		fmt.Println()
	}
	show(shale.Range{})
	show(shale.Prefix("b/"))
	show(shale.Prefix("b/").Reversed())
	show(shale.Range{Lower: []byte("b"), Upper: []byte("c"), Limit: 1})
	show(shale.Range{Reverse: true, Limit: 2})
	// Output:
	// a=1;b/1=2;b/2=3;c=4;
	// b/1=2;b/2=3;
	// b/2=3;b/1=2;
	// b/1=2;
	// c=4;b/2=3;
}

func ExampleDB_NewIterator() {
	db := open()
	defer db.Close()
	put(db, "10:00", "open", "12:30", "lunch", "18:00", "close")
	it := db.NewIterator(shale.Range{})
	defer it.Close()
	for ok := it.SeekGE([]byte("12:00")); ok; ok = it.Next() {
		fmt.Printf("%s %s\n", it.Key(), it.Value())
	}
	if it.SeekLT([]byte("12:00")) {
		fmt.Printf("before noon: %s\n", it.Key())
	}
	fmt.Println(it.Err())
	// Output:
	// 12:30 lunch
	// 18:00 close
	// before noon: 10:00
	// <nil>
}

func ExampleDB_Snapshot() {
	db := open()
	defer db.Close()
	put(db, "k", "old")
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	put(db, "k", "new")
	then, _ := s.Get([]byte("k"))
	now, _ := db.Get([]byte("k"))
	fmt.Printf("%s, then %s\n", then, now)
	// Output: old, then new
}

func ExampleInspector_Explain() {
	db := open()
	defer db.Close()
	put(db, "a", "1", "c", "3")
	if err := db.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"a", "b", "d"} {
		x, err := db.Inspect().Explain([]byte(key))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(key, ":")
		for _, step := range x.Steps {
			fmt.Printf(" %s %v;", step.Place, step.Verdict)
		}
		blocks, _ := x.BlocksRead()
		fmt.Println(blocks, "blocks read")
	}
	// Output:
	// a: memtable definitely not; L0 found;1 blocks read
	// b: memtable definitely not; L0 definitely not;0 blocks read
	// d: memtable definitely not; L0 outside;0 blocks read
}

func ExampleDB_Checkpoint() {
	fsys := vfs.NewMem()
	db, err := shale.Open("hosts.db", &shale.Options{FS: fsys})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	put(db, "k", "before")
	if err := db.Checkpoint("backup.db"); err != nil {
		log.Fatal(err)
	}
	put(db, "k", "after")
	backup, err := shale.Open("backup.db", &shale.Options{FS: fsys, ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer backup.Close()
	value, err := backup.Get([]byte("k"))
	fmt.Printf("%s %v\n", value, err)
	// Output: before <nil>
}

// Keys that are sorted already become tables at once, past log and memtable.
func ExampleDB_Ingest() {
	db := open()
	defer db.Close()
	hosts := []string{"a.example", "b.example", "c.example"}
	err := db.Ingest(context.Background(), func(yield func(key, value []byte) bool) {
		for _, host := range hosts {
			if !yield([]byte(host), nil) {
				return
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	has, err := db.Has([]byte("b.example"))
	fmt.Println(has, err)
	// Output: true <nil>
}

// A copy of a store follows it. It keeps the number of the last change that it has in the same batch as the change. So
// each change counts once, wherever the program is killed, and the next run goes on behind it.
func ExampleDB_Changes() {
	db, follower := open(), open()
	defer db.Close()
	defer follower.Close()
	put(db, "a", "1", "b", "2")
	if err := db.Delete([]byte("a")); err != nil {
		log.Fatal(err)
	}

	place := []byte("\x00place") // a key that the store itself does not have
	var after uint64
	if v, err := follower.Get(place); err == nil {
		after = binary.BigEndian.Uint64(v)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for change, err := range db.Changes(ctx, after) {
		if err != nil {
			fmt.Println(err) // ErrChangesGone: begin again with a Snapshot
			break
		}
		var b shale.Batch
		for op := range change.Ops() {
			fmt.Printf("%d: %s %s\n", change.Seq, op.Kind, op.Key)
			if err := b.Add(op); err != nil {
				log.Fatal(err)
			}
		}
		if err := b.Put(place, binary.BigEndian.AppendUint64(nil, change.Last)); err != nil {
			log.Fatal(err)
		}
		if err := follower.Write(ctx, &b); err != nil {
			log.Fatal(err)
		}
		if change.Last == 3 {
			cancel() // a program that follows for ever does not
		}
	}
	// Output:
	// 1: put a
	// 2: put b
	// 3: delete a
	// context canceled
}

// A read-only handle next to the writer shows what was there when it was opened, and after Advance what was written since.
func ExampleDB_Advance() {
	disk := vfs.NewMem()
	writer, err := shale.Open("hosts.db", &shale.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Close()
	reader, err := shale.Open("hosts.db", &shale.Options{FS: disk, ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	put(writer, "www.example.org", "seen")
	fmt.Println(reader.Has([]byte("www.example.org")))
	_, err = reader.Advance(context.Background())
	fmt.Println(err)
	fmt.Println(reader.Has([]byte("www.example.org")))
	// Output:
	// false <nil>
	// <nil>
	// true <nil>
}
