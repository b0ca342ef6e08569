package testenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository is the directory of the root module, "" if the process was not started in its tree. It is
// found before a test can change the working directory.
var repository = func() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if first, _, _ := strings.Cut(string(text), "\n"); err == nil && strings.TrimSpace(first) == "module "+module {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}()

// Shared returns the path of a file or folder in the folder shared next to the repository, which has lists
// of words and hosts, and what other programs wrote. It skips the test on a machine without that folder.
func Shared(t testing.TB, name string) string {
	t.Helper()
	path, ok := FindShared(t, name)
	if !ok {
		t.Skip("there is no ../shared here")
	}
	return path
}

// FindShared is Shared for tests that do without: then ok is false. If the folder is there and the file is
// not, the test fails, since it looks for it in the wrong place.
func FindShared(t testing.TB, name string) (path string, ok bool) {
	t.Helper()
	if repository == "" {
		return "", false
	}
	dir := filepath.Join(repository, "..", "shared")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	path = filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is ../shared, but not this in it: %v", err)
	}
	return path, true
}

// ReadShared returns the contents of a file of Shared.
func ReadShared(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(Shared(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
