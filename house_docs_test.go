package shale_test

import (
	"io/fs"
	"net/url"
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

// The calls of shale in the last columns of docs/MOVING.md are in the code. Those of other stores are checked in bench/peers.
func TestMoving_NamesExist(t *testing.T) {
	testenv.SkipRace(t)
	words, _ := namesOfCode(t)
	row := regexp.MustCompile(`(?m)^\| .* \| (.*) \|$`)
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/MOVING.md"), -1) {
		for _, code := range regexp.MustCompile("`[^`]*`").FindAllString(m[1], -1) {
			for _, name := range regexp.MustCompile(`\b[A-Z]\w+`).FindAllString(code, -1) {
				if !words[name] && !regexp.MustCompile(`^[A-Z]+$`).MatchString(name) { // INTO is an argument of a command
					t.Errorf("docs/MOVING.md: there is no %s in the code: %s", name, m[0])
				}
			}
		}
	}
}

// Every file that a document links to exists, figures too, and every heading. Links to the web have the shape of one.
// Whatever else names a document, such as a comment in the code, names one that is there.
func TestDocuments_Links(t *testing.T) {
	r := newRepository(t)
	link, headings, checked := regexp.MustCompile(`\]\(([^)\s]*)\)`), map[string]map[string]bool{}, 0
	for _, doc := range r.documents {
		text := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(read(t, doc), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			checked++
			if strings.Contains(m[1], ":") {
				if u, err := url.Parse(m[1]); err != nil || u.Scheme != "https" || !strings.Contains(u.Host, ".") {
					t.Errorf("%s points to %s, which is no address of the web", doc, m[1])
				}
				continue
			}
			path, heading, _ := strings.Cut(m[1], "#")
			to := doc
			if path != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(doc), path))
			}
			if err := exists(to); err != nil {
				t.Errorf("%s points to %s: %v", doc, path, err)
				continue
			}
			if headings[to] == nil && heading != "" {
				headings[to] = anchors(t, to)
			}
			if heading != "" && !headings[to]["#"+heading] {
				t.Errorf("%s points to #%s in %s, which has no such heading", doc, heading, to)
			}
		}
	}
	if checked < 140 {
		t.Errorf("only %d links were found", checked)
	}
	named := regexp.MustCompile(`\bdocs/[A-Za-z0-9/_-]+\.(?:md|svg)\b`)
	for dir, source := range r.sources {
		for _, name := range named.FindAllString(source, -1) {
			if exists(name) != nil {
				t.Errorf("a Go file in %s names %s, which is not there", dir, name)
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
