package shale_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/typed"
)

// README.md has at most 1,000 words, and a whole program. It compiles, and prints what README.md says.
func TestReadme_Program(t *testing.T) {
	testenv.SkipRace(t)
	readme := read(t, "README.md")
	if n := len(strings.Fields(readme)); n > 1000 {
		t.Errorf("README.md has %d words, want at most 1,000", n)
	}
	m := regexp.MustCompile("(?s)```go\n(package main\n.*?)```.*?```text\n(.*?)```").FindStringSubmatch(readme)
	if m == nil {
		t.Fatal("README.md has no program with what it prints")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program.exe")
	if err := os.WriteFile(source, []byte(m[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(program)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || string(out) != m[2] {
		t.Errorf("the program of README.md prints\n%s%v, README.md says\n%s", out, err, m[2])
	}
}

// The examples are the code of docs/FILTERS.md and docs/MOVING.md: TestDocuments_Code holds them together.
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

// Every block of Go code in docs/FILTERS.md and docs/MOVING.md is in this file, where it is compiled and run.
func TestDocuments_Code(t *testing.T) {
	trim := func(code string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "") }
	source := trim(read(t, "house_readme_test.go"))
	for _, name := range []string{"docs/FILTERS.md", "docs/MOVING.md"} {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, name), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no Go code", name)
		}
		for _, block := range blocks {
			if !strings.Contains(source, trim(block[1])) {
				t.Errorf("%s has code that no test runs:\n%s", name, block[1])
			}
		}
	}
}
