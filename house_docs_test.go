package shale_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Documents name types, functions and files that may be renamed. Whatever these documents put between
// backquotes and looks like a name of the code, or ends in .go, must be in the code.
func TestArchitecture_NamesExist(t *testing.T) {
	testenv.SkipRace(t)
	var text []byte
	for _, name := range []string{"CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/FAILURES.md", "docs/GUIDE.md", "docs/PERFORMANCE.md", "docs/TESTING.md"} {
		document, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, document...)
	}
	words, files := namesOfCode(t)
	name := regexp.MustCompile("`([A-Za-z][A-Za-z0-9_.]*)`")
	for _, m := range name.FindAllSubmatch(text, -1) {
		for part := range strings.SplitSeq(string(m[1]), ".") {
			if !words[part] && !files[string(m[1])] {
				t.Errorf("`%s`: there is no %q in the code", m[1], part)
			}
		}
	}
	file := regexp.MustCompile(`[a-z_][a-z_/]*\.go\b`)
	for _, m := range file.FindAll(text, -1) {
		if !files[string(m)] {
			t.Errorf("there is no file %s", m)
		}
	}
}

// namesOfCode returns all words of the Go sources, and their files, by base
// name and by path.
func namesOfCode(t *testing.T) (words, files map[string]bool) {
	t.Helper()
	words, files = map[string]bool{"sst": true, "benchstat": true}, map[string]bool{}
	word := regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, w := range word.FindAll(src, -1) {
			words[string(w)] = true
		}
		files[d.Name()], files[filepath.ToSlash(path)] = true, true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return words, files
}

// Every file that the documents link to exists, and every heading.
func TestDocuments_Links(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^):]*)?\)`)
	for _, doc := range []string{"README.md", "bloom/README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/ARCHITECTURE.md", "docs/COMMAND.md", "docs/FORMAT.md", "docs/FAILURES.md", "docs/FILTERS.md", "docs/GROUP.md", "docs/GUIDE.md", "docs/LOGSTORE.md", "docs/MOVING.md", "docs/OPERATIONS.md", "docs/PERFORMANCE.md", "docs/REMOTE.md", "docs/SHALED.md", "docs/TESTING.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			to := doc
			if len(m[1]) > 0 {
				to = filepath.Join(filepath.Dir(doc), string(m[1]))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s points to %s: %v", doc, m[1], err)
			} else if name := string(m[2]); name != "" && !anchors(t, to)[name] {
				t.Errorf("%s points to %s in %s, which has no such heading", doc, name, to)
			}
		}
	}
}

// anchors returns what links to the headings of a document end with.
func anchors(t *testing.T, doc string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	heading, drop := regexp.MustCompile(`(?m)^#+ (.*)$`), regexp.MustCompile(`[^\pL\pN _-]`)
	for _, m := range heading.FindAllSubmatch(text, -1) {
		found["#"+strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(string(m[1])), ""), " ", "-")] = true
	}
	return found
}
