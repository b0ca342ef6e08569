package bbolt

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// programs are programs of bbolt whose own tests run on this package.
var programs = []struct {
	module, pkg string
	passed      int               // how many of its tests pass
	left        map[string]string // tests that are left out, and why
	long        bool              // only with SHALE_LONG: it is large
}{
	{module: "github.com/hashicorp/raft-boltdb/v2@v2.3.1", pkg: ".", passed: 13},
	{module: "go.etcd.io/etcd/server/v3@v3.7.3", pkg: "./storage/backend", passed: 23, long: true, left: map[string]string{
		"TestBackendSnapshot": "Tx.WriteTo",
		"TestBackendDefrag":   "Options.OpenFile: etcd opens the new database in a file that it has made, and renames that",
	}},
}

// TestPrograms runs the tests of other programs on this package: their module is taken from where modules come from, and its
// bbolt replaced by a module that has other names for what is here.
func TestPrograms(t *testing.T) {
	bolt, wrapper := download(t, boltPath+"@v1.5.0"), t.TempDir()
	wrap(t, wrapper, bolt)
	for _, p := range programs {
		t.Run(p.module, func(t *testing.T) {
			if p.long && os.Getenv("SHALE_LONG") == "" {
				t.Skip("it is built for minutes: set SHALE_LONG=1")
			}
			dir := t.TempDir()
			copyTree(t, download(t, p.module), dir)
			mod := read(t, filepath.Join(dir, "go.mod"))
			mod = regexp.MustCompile(`(?s)\nreplace \(.*?\n\)`).ReplaceAllString(mod, "") // to directories next to it
			mod = regexp.MustCompile(`\n(go|toolchain) [^\n]*`).ReplaceAllString(mod, "")
			write(t, filepath.Join(dir, "go.mod"), mod+"\ngo 1.26.0\n"+ours(t)+"\nreplace "+boltPath+" => "+wrapper+"\n")
			add(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join(wrapper, "go.sum")))
			files, err := filepath.Glob(filepath.Join(dir, p.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if text := without(t, file, p.left); len(p.left) > 0 {
					write(t, file, text)
				}
			}
			out := runTests(t, dir, p.pkg)
			t.Logf("of its tests %d pass, %d skip themselves, %d fail, %d are left out", len(out.passed), len(out.skipped), len(out.failed), len(p.left))
			for name, text := range out.failed {
				t.Errorf("%s:\n%s", name, text)
			}
			if len(out.passed) < p.passed {
				t.Errorf("%d tests pass, want %d", len(out.passed), p.passed)
			}
		})
	}
}
