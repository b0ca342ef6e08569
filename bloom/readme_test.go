package bloom_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
)

// firstSteps is the program of README.md.
func firstSteps() error {
	seen := bloom.New(1_000_000, 0.01) // for a million keys; 1 % of absent keys pass; 1.2 MB
	for _, url := range []string{"/a", "/b", "/a"} {
		if !seen.CheckAndAdd([]byte(url)) {
			fmt.Println("fetch", url) // certainly new
		}
	}

	var file bytes.Buffer
	if _, err := seen.WriteTo(&file); err != nil {
		return err
	}
	again := new(bloom.Filter)
	if _, err := again.ReadFrom(&file); err != nil {
		return err // damaged, or of a later version: any key may be there
	}
	fmt.Println(again.MayContainString("/b"), again.MayContainString("/c"))
	return nil
}

func Example_readme() {
	if err := firstSteps(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// fetch /a
	// fetch /b
	// true false
}

// The program of README.md is the one above, and its links lead to files.
func TestReadme(t *testing.T) {
	readme := get(os.ReadFile("README.md"))
	source := get(os.ReadFile("readme_test.go"))
	_, program, _ := strings.Cut(string(readme), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(program, "\t$1")
	if len(program) < 100 || !strings.Contains(string(source), indented) {
		t.Errorf("the program of README.md is not the one of this test:\n%s", indented)
	}
	links := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllSubmatch(readme, -1)
	if len(links) < 8 {
		t.Errorf("%d links", len(links))
	}
	for _, m := range links {
		if _, err := os.Stat(filepath.FromSlash(string(m[1]))); err != nil {
			t.Errorf("README.md points to %s: %v", m[1], err)
		}
	}
}
