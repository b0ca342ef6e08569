package bbolt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// This file does the same random work with bbolt and with this package, and compares all that both return.

// A pair is one transaction of each.
type pair struct {
	t      *testing.T
	random *rand.Rand
	theirs *bolt.Tx
	ours   *Tx
}

// A place is one bucket of each.
type place struct {
	theirs *bolt.Bucket
	ours   *Bucket
}

func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	options := &bolt.Options{NoSync: true, NoFreelistSync: true}
	theirs, err := bolt.Open(filepath.Join(dir, "theirs"), 0o600, options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { theirs.Close() }()
	ours := mustOpen(t, filepath.Join(dir, "ours"))
	defer func() { ours.Close() }()
	copied, p := 0, pair{t: t, random: random}
	defer func() { // after a failure: Close waits for transactions
		_, _ = p.theirs.Rollback(), p.ours.Rollback()
	}()
	for n := range 120 {
		if p.theirs, err = theirs.Begin(true); err != nil {
			t.Fatal(err)
		}
		if p.ours, err = ours.Begin(true); err != nil {
			t.Fatal(err)
		}
		p.move(p.some(), p.key())
		for range random.IntN(60) {
			p.step()
		}
		p.compare(root(p))
		noErrors(t, p.ours.Check())
		if random.IntN(4) > 0 {
			p.same("Commit", p.theirs.Commit(), p.ours.Commit())
		} else {
			p.same("Rollback", p.theirs.Rollback(), p.ours.Rollback())
		}
		switch random.IntN(10) {
		case 0:
			if err := ours.Close(); err != nil {
				t.Fatal(err)
			}
			ours = mustOpen(t, filepath.Join(dir, "ours"))
		case 1: // a copy goes on in the place of the database
			copied++
			path := filepath.Join(dir, fmt.Sprint("ours", n))
			if err := ours.View(func(tx *Tx) error { return tx.CopyFile(path, 0o600) }); err != nil {
				t.Fatal(err)
			}
			if err := ours.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, "ours")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path, filepath.Join(dir, "ours")); err != nil {
				t.Fatal(err)
			}
			ours = mustOpen(t, filepath.Join(dir, "ours"))
		}
		readBoth(t, random, theirs, ours)
	}
	t.Logf("%d copies", copied)
	imported := filepath.Join(dir, "imported")
	if err := theirs.View(func(tx *bolt.Tx) error { return Import(imported, 0o600, tx.Cursor().Bucket()) }); err != nil {
		t.Fatal(err)
	}
	back := mustOpen(t, imported)
	defer back.Close()
	readBoth(t, random, theirs, back)
}

func mustOpen(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(path, 0o600, &Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func noErrors(t *testing.T, errs <-chan error) {
	t.Helper()
	for err := range errs {
		t.Errorf("check: %v", err)
	}
}

// readBoth compares two databases in transactions that read.
func readBoth(t *testing.T, random *rand.Rand, theirs *bolt.DB, ours *DB) {
	t.Helper()
	err := theirs.View(func(tx *bolt.Tx) error {
		return ours.View(func(our *Tx) error {
			p := pair{t, random, tx, our}
			p.compare(root(p))
			p.walk()
			noErrors(t, our.Check())
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func root(p pair) place { return place{p.theirs.Cursor().Bucket(), p.ours.Cursor().Bucket()} }

// same compares two errors, or other results.
func (p pair) same(what string, theirs, ours any) {
	p.t.Helper()
	if fmt.Sprintf("%#v", theirs) != fmt.Sprintf("%#v", ours) && theirs != ours {
		p.t.Fatalf("%s: bbolt says %#v, this package %#v", what, theirs, ours)
	}
}

// key returns one of few keys.
func (p pair) key() []byte {
	switch p.random.IntN(20) {
	case 0:
		return nil
	case 1:
		return bytes.Repeat([]byte{0xff}, 1+p.random.IntN(3))
	case 2:
		return bytes.Repeat([]byte{0}, 1+p.random.IntN(3))
	}
	return fmt.Appendf(nil, "%0*d", 1+p.random.IntN(2), p.random.IntN(10))
}

// some returns a bucket, as a rule one that is in others.
func (p pair) some() place {
	at := root(p)
	for range p.random.IntN(4) {
		k := p.key()
		theirs, ours := at.theirs.Bucket(k), at.ours.Bucket(k)
		p.same("Bucket", theirs == nil, ours == nil)
		if ours != nil {
			at = place{theirs, ours}
		}
	}
	return at
}

// step does one random thing.
func (p pair) step() {
	b, k := p.some(), p.key()
	switch p.random.IntN(12) {
	case 0, 1, 2, 3:
		v := bytes.Repeat([]byte{byte(p.random.IntN(256))}, p.random.IntN(100))
		p.same("Put", b.theirs.Put(k, v), b.ours.Put(k, v))
	case 4:
		p.same("Delete", b.theirs.Delete(k), b.ours.Delete(k))
	case 5, 6:
		_, theirs := b.theirs.CreateBucket(k)
		_, ours := b.ours.CreateBucket(k)
		p.same("CreateBucket", theirs, ours)
	case 7:
		theirs, err := b.theirs.CreateBucketIfNotExists(k)
		ours, ourErr := b.ours.CreateBucketIfNotExists(k)
		p.same("CreateBucketIfNotExists", err, ourErr)
		p.same("CreateBucketIfNotExists", theirs == nil, ours == nil)
	case 8:
		if k != nil { // bbolt finds the name in some buckets
			p.same("DeleteBucket", b.theirs.DeleteBucket(k), b.ours.DeleteBucket(k))
		}
	case 9, 10:
		if p.random.IntN(3) == 0 {
			v := p.random.Uint64()
			p.same("SetSequence", b.theirs.SetSequence(v), b.ours.SetSequence(v))
		}
		theirs, err := b.theirs.NextSequence()
		ours, ourErr := b.ours.NextSequence()
		p.same("NextSequence", err, ourErr)
		p.same("NextSequence", theirs, ours)
	case 11:
		p.cursor(b)
	}
}

// move moves a bucket. bbolt loses one that is moved into itself, so it is not asked to; and what the transaction has changed
// in it before, so this comes first.
func (p pair) move(from place, k []byte) {
	to := p.some()
	if c := from.ours.Bucket(k); c != nil {
		for b := to.ours; b != nil; b = b.in {
			if b == c {
				if err := from.ours.MoveBucket(k, to.ours); err == nil {
					p.t.Fatal("a bucket was moved into itself")
				}
				return
			}
		}
	}
	if k != nil {
		p.same("MoveBucket", from.theirs.MoveBucket(k, to.theirs), from.ours.MoveBucket(k, to.ours))
	}
}

// cursor moves a cursor, and deletes by it. After a deletion it is positioned again: bbolt leaves open where it stands.
func (p pair) cursor(b place) {
	theirs, ours := b.theirs.Cursor(), b.ours.Cursor()
	for range p.random.IntN(12) {
		var tk, tv, ok, ov []byte
		what := ""
		switch p.random.IntN(7) {
		case 0:
			what = "First"
			tk, tv = theirs.First()
			ok, ov = ours.First()
		case 1:
			what = "Last"
			tk, tv = theirs.Last()
			ok, ov = ours.Last()
		case 2:
			k := p.key()
			what = fmt.Sprintf("Seek %x", k)
			tk, tv = theirs.Seek(k)
			ok, ov = ours.Seek(k)
			if tk != nil && p.ours.writable && p.random.IntN(2) == 0 {
				p.same("Cursor.Delete", theirs.Delete(), ours.Delete())
				theirs, ours = b.theirs.Cursor(), b.ours.Cursor()
			}
		case 3, 4:
			what = "Next"
			tk, tv = theirs.Next()
			ok, ov = ours.Next()
		default:
			what = "Prev"
			tk, tv = theirs.Prev()
			ok, ov = ours.Prev()
		}
		p.same(what, tk, ok)
		p.same(what+", value", tv, ov)
	}
}

// compare compares all that is in two buckets.
func (p pair) compare(b place) {
	p.t.Helper()
	p.same("Sequence", b.theirs.Sequence(), b.ours.Sequence())
	p.same("Inspect", fmt.Sprint(b.theirs.Inspect()), fmt.Sprint(b.ours.Inspect()))
	c := b.ours.Cursor()
	k, v := c.First()
	err := b.theirs.ForEach(func(tk, tv []byte) error {
		p.same("ForEach", tk, k)
		p.same("ForEach, value", tv, v)
		p.same("Get", b.theirs.Get(k), b.ours.Get(k))
		if tv == nil {
			p.compare(place{b.theirs.Bucket(tk), b.ours.Bucket(k)})
		}
		k, v = c.Next()
		return nil
	})
	p.same("ForEach", err, nil)
	p.same("ForEach, end", k == nil, true)
	var theirs, ours []string
	p.same("ForEachBucket", b.theirs.ForEachBucket(func(k []byte) error { theirs = append(theirs, string(k)); return nil }),
		b.ours.ForEachBucket(func(k []byte) error { ours = append(ours, string(k)); return nil }))
	p.same("ForEachBucket", theirs, ours)
}

// walk moves cursors in random buckets.
func (p pair) walk() {
	for range 5 {
		p.cursor(p.some())
	}
}
