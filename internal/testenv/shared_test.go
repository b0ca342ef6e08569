package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Where ../shared is there, every test finds it, wherever it works meanwhile; the tests that need it do
// not skip.
func TestShared_IsFound(t *testing.T) {
	if _, err := os.Stat(filepath.Join(repository, "house_test.go")); err != nil {
		t.Fatalf("the repository is not %q: %v", repository, err)
	}
	_, err := os.Stat("../../../shared")
	t.Chdir(t.TempDir())
	for _, name := range []string{"data/words-en.txt", "vectors/guava-params.tsv"} {
		if path, ok := FindShared(t, name); ok != (err == nil) {
			t.Errorf("FindShared(%s) = %q, %v; ../shared: %v", name, path, ok, err)
		}
	}
}
