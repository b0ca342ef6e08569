package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What CHANGELOG.md links to in the repository, the notes of a release link to at its tag. All else is as it was.
func TestNotes_Links(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a file":             {"see [the guide](docs/GUIDE.md).", "see [the guide](https://" + ours + "/blob/v0.1.0/docs/GUIDE.md)."},
		"a heading in one":   {"[a](docs/GUIDE.md#b)", "[a](https://" + ours + "/blob/v0.1.0/docs/GUIDE.md#b)"},
		"a heading of ours":  {"[a](#b)", "[a](https://" + ours + "/blob/v0.1.0/CHANGELOG.md#b)"},
		"two in a line":      {"[a](A) [b](B)", "[a](https://" + ours + "/blob/v0.1.0/A) [b](https://" + ours + "/blob/v0.1.0/B)"},
		"over two lines":     {"[the\n  guide](G)", "[the\n  guide](https://" + ours + "/blob/v0.1.0/G)"},
		"one of the web":     {"[a](https://example.org/b)", "[a](https://example.org/b)"},
		"code between words": {"`a[0](b)` and `c`", "`a[0](b)` and `c`"},
		"a block of code":    {"```go\na[0](b)\n```", "```go\na[0](b)\n```"},
	} {
		notes, after, err := splitChangelog(unreleased+"\n"+c.text+"\n", "v0.1.0", "2026-01-02")
		if err != nil || notes != c.want+"\n" {
			t.Errorf("%s: the notes are %q, %v, want %q", name, notes, err, c.want)
		}
		if !strings.HasSuffix(after, c.text+"\n") {
			t.Errorf("%s: CHANGELOG.md has become %q", name, after)
		}
	}
}

// No link of the next release's notes depends on where they are read.
func TestNotes_LinksOfChangelog(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	notes := linkAbroad(string(text), "v0.1.0")
	links := regexp.MustCompile(`\]\(([^)\s]*)\)`).FindAllStringSubmatch(notes, -1)
	if len(links) < 8 {
		t.Errorf("only %d links were found", len(links))
	}
	for _, m := range links {
		if !strings.HasPrefix(m[1], "https://") {
			t.Errorf("the notes link to %s", m[1])
		}
	}
}
