package shale

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every module names the same version of Go, and every document that says which one is needed.
func TestHouse_OneGoVersion(t *testing.T) {
	line := regexp.MustCompile(`(?m)^go ((\d+\.\d+)\.\d+)$`)
	root, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := line.FindStringSubmatch(string(root))
	if want == nil {
		t.Fatal("go.mod has no line such as go 1.26.0")
	}
	needed := regexp.MustCompile(`Go (\d+\.\d+) or newer`)
	modules, documents := 0, 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "go.mod" && !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if d.Name() == "go.mod" {
			modules++
			if m := line.FindStringSubmatch(string(text)); m == nil || m[1] != want[1] {
				t.Errorf("%s has the line %q, and the root has %q", path, m, want[0])
			}
			return err
		}
		for _, m := range needed.FindAllStringSubmatch(string(text), -1) {
			documents++
			if m[1] != want[2] {
				t.Errorf("%s says %q, and go.mod %q", path, m[0], want[0])
			}
		}
		return err
	})
	if err != nil || modules < 10 || documents < 2 {
		t.Errorf("%d modules and %d documents that say which Go they need, want at least 10 and 2: %v", modules, documents, err)
	}
}
