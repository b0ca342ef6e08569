package shale

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// riddles are patterns of sentences that must be read twice. Name the thing instead of "that" or
// "what", and write "next to", "again" and "from 5 up".
var riddles = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\bwhat it is that\b`,
	`\b(that|those) (with|of|in|by|for) which\b`,
	`\bof which [^.;:,]* that\b`,
	`\bthat of (that|those|it|one)\b`,
	`\b(so|by|than|with) who\b`,
	`(^|[.:] )who (has|uses|opens|reads|writes|takes|closes|finds|wants)\b`,
	`\bsuch as are\b`,
	`\btells (whether|of)\b`,
	`\bfrom (\d+|it|n) on\b`,
	`\bbeside\b([^-]|$)`,
	`\banew\b`,
}, "|"))

// Comments and pages have no riddles.
func TestHouse_Words(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		page := strings.HasSuffix(path, ".md")
		switch {
		case d.IsDir() && path != "." && (d.Name()[0] == '.' || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !page && !strings.HasSuffix(path, ".go") || path == "house_words_test.go":
			return nil
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if _, comment, found := strings.Cut(line, "// "); found {
				line = comment
			} else if !page {
				continue
			}
			if riddle := riddles.FindString(line); riddle != "" {
				t.Errorf("%s:%d: %q in %q", path, i+1, riddle, line)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
