package shale_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/typed"
)

// The code of the README, docs/FILTERS.md and docs/MOVING.md: TestReadme_Code holds the two together.
func Example_readme() {
	temp, err := os.MkdirTemp("", "shale")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(temp, "hosts.db")

	db, err := shale.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("www.example.org"), []byte("seen")); err != nil {
		log.Fatal(err)
	}
	known, err := db.Has([]byte("www.example.net")) // absent: no disk read
	fmt.Println(known, err)
	for entry, err := range db.Scan(shale.Prefix("www.")) {
		fmt.Printf("%s = %s, %v\n", entry.Key, entry.Value, err)
	}
	// Output:
	// false <nil>
	// www.example.org = seen, <nil>
}

func Example_filterAlone() {
	urls := [][]byte{[]byte("https://a.example/"), []byte("https://b.example/"), []byte("https://a.example/")}
	fetch := func(url []byte) { fmt.Printf("%s\n", url) }
	seen := bloom.New(1_000_000, 0.01) // for a million keys, 1 % false positives: 1.2 MB
	for _, url := range urls {
		if !seen.CheckAndAdd(url) {
			fetch(url) // certainly new
		}
	}
	// Output:
	// https://a.example/
	// https://b.example/
}

// transfer moves an amount from one account to another. If it returns an error, it has moved nothing.
func transfer(ctx context.Context, db *shale.DB, from, to string, amount int64) error {
	return db.Update(ctx, func(tx *shale.Txn) error {
		accounts := tx.Sub("accounts/")
		left, err := typed.Add(accounts, []byte(from), -amount)
		if err != nil {
			return err
		}
		if left < 0 {
			return fmt.Errorf("%s has only %d", from, left+amount)
		}
		_, err = typed.Add(accounts, []byte(to), amount)
		return err
	})
}

// show prints all accounts that sort at or after from, first by a loop and then by a cursor.
func show(r *shale.Sub, from []byte) error {
	for e, err := range r.Scan(shale.Range{Lower: from}) {
		if err != nil {
			return err
		}
		fmt.Printf("%s has %d bytes\n", e.Key, len(e.Value))
	}
	it := r.NewIterator(shale.Range{})
	defer it.Close()
	for ok := it.SeekGE(from); ok; ok = it.Next() {
		fmt.Printf("%s has %d bytes\n", it.Key(), len(it.Value()))
	}
	return it.Err()
}

// A program that has come from bbolt or Badger.
func Example_moving() {
	db := open()
	defer db.Close()
	ctx, accounts := context.Background(), db.Sub("accounts/")
	err := db.Update(ctx, func(tx *shale.Txn) error {
		_, err := typed.Add(tx.Sub("accounts/"), []byte("ada"), 10)
		return err
	})
	fmt.Println(err, transfer(ctx, db, "ada", "bob", 11), transfer(ctx, db, "ada", "bob", 10))
	fmt.Println(show(accounts, []byte("b")), accounts.DeleteRange(nil, nil), show(accounts, nil))
	// Output:
	// <nil> ada has only 10 <nil>
	// bob has 8 bytes
	// bob has 8 bytes
	// <nil> <nil> <nil>
}

// Every line of Go code in the README, docs/FILTERS.md and docs/MOVING.md is in this file, where it is compiled and run.
func TestReadme_Code(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docs/FILTERS.md", "docs/MOVING.md"} {
		document, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		readme = append(readme, document...)
	}
	source, err := os.ReadFile("house_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("no Go code in the documents")
	}
	for _, block := range blocks {
		for line := range strings.Lines(string(block[1])) {
			if !strings.Contains(string(source), strings.TrimSpace(line)) {
				t.Errorf("README.md, docs/FILTERS.md or docs/MOVING.md has a line of code that no test runs:\n%s", line)
			}
		}
	}
}
