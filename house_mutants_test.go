package shale_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every patch in .ci/mutants says what breaks and names tests that exist.
func TestMutants_Patches(t *testing.T) {
	patches, err := os.ReadDir(".ci/mutants")
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		name := patch.Name()
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*\.patch$`).MatchString(name) {
			t.Errorf("%s: not the name of a patch", name)
			continue
		}
		text, err := os.ReadFile(filepath.Join(".ci/mutants", name))
		if err != nil {
			t.Fatal(err)
		}
		head, _, ok := strings.Cut(string(text), "\n--- ")
		if !ok || !regexp.MustCompile(`(?m)^Bug: .+`).MatchString(head) {
			t.Errorf("%s: no line that begins with Bug:, before the diff", name)
		}
		tests := regexp.MustCompile(`(?m)^Test: (\S+) (Test\S+)`).FindAllStringSubmatch(head, -1)
		if len(tests) == 0 {
			t.Errorf("%s: no line that begins with Test:, before the diff", name)
		}
		for _, m := range tests {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s: %s has no %s", name, m[1], m[2])
			}
		}
	}
}

// hasTest reports whether the package in dir has the test.
func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(src, []byte("\nfunc "+test+"(t *testing.T) {"))
	})
}

// Bugs that tests must find are in patches only: no code that users build mentions them.
func TestMutants_NotInTheCode(t *testing.T) {
	mutant := regexp.MustCompile(`(?i)mutant`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if at := mutant.Find(src); at != nil {
			t.Errorf("%s has %q", path, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
