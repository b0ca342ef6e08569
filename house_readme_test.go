package shale_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
)

// The code of the README and of docs/FILTERS.md: TestReadme_Code holds the two together.
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

// Every line of Go code in the README and in docs/FILTERS.md is in this file, where it is compiled and run.
func TestReadme_Code(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	filters, err := os.ReadFile("docs/FILTERS.md")
	if err != nil {
		t.Fatal(err)
	}
	readme = append(readme, filters...)
	source, err := os.ReadFile("house_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("no Go code in README.md and docs/FILTERS.md")
	}
	for _, block := range blocks {
		for line := range strings.Lines(string(block[1])) {
			if !strings.Contains(string(source), strings.TrimSpace(line)) {
				t.Errorf("README.md or docs/FILTERS.md has a line of code that no test runs:\n%s", line)
			}
		}
	}
}
