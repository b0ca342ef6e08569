package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// twoStores makes two stores, each with every kind of file.
func twoStores(t *testing.T) (own, other string) {
	t.Helper()
	dir := t.TempDir()
	own, other = filepath.Join(dir, "own"), filepath.Join(dir, "other")
	for _, store := range []string{own, other} {
		if _, notes, st := call("", "-C", store, "-e", "put a 1", "-e", "flush", "-e", "put b 2"); st != command.Found {
			t.Fatal(notes)
		}
		if _, notes, st := call("", "-C", store, "filters", "rebuild", "--hash", "siphash"); st != command.Found {
			t.Fatal(notes)
		}
	}
	return own, other
}

// filesOf returns the contents of the files in a folder.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Commands write files only through package outfile.
func TestOutput_ByOutfileAlone(t *testing.T) {
	writing := []string{"Create", "OpenFile", "OpenReadWrite", "WriteFile", "Rename", "Link", "Symlink"}
	for _, dir := range []string{".", "internal/command", "internal/output", "internal/shell", "../../internal/benchmark", "../../bench/report"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				called, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !slices.Contains(writing, called.Sel.Name) {
					return true
				}
				// bench/report tells the system to drop its caches.
				if file, ok := call.Args[0].(*ast.BasicLit); ok && strings.HasPrefix(file.Value, `"/proc/`) {
					return true
				}
				t.Errorf("%s: %s writes a file without package outfile", files.Position(n.Pos()), called.Sel.Name)
				return true
			})
		}
	}
}

// No command writes over a file of a store, its own or another's, by whatever name.
func TestOutput_NeverAStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege")
	}
	own, other := twoStores(t)
	third := cmdtest.NewStore(t, 1)
	before := [2]map[string]string{filesOf(t, own), filesOf(t, other)}
	links := t.TempDir()
	if err := errors.Join(os.Symlink(other, filepath.Join(links, "dir")), os.Symlink(filepath.Join("..", filepath.Base(links), "dir"), filepath.Join(links, "again"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(own)
	var names []string
	for _, files := range before {
		for path := range files {
			names = append(names, path)
		}
	}
	names = append(names, filepath.Join(own, "MANIFEST-999999"), filepath.Join(other, "000999.sst")) // not there: not ours to make
	slices.Sort(names)
	n := 0
	for _, path := range names {
		base := filepath.Base(path)
		targets := []string{path, filepath.Join(filepath.Dir(path), ".", base)}
		if filepath.Dir(path) == own {
			targets = append(targets, base)
		} else {
			targets = append(targets, filepath.Join(links, "dir", base), filepath.Join(links, "again", base))
		}
		for _, suffix := range []string{"", ".svg"} {
			link := filepath.Join(links, base+"-"+filepath.Base(filepath.Dir(path))+suffix)
			if err := errors.Join(os.Symlink(path, link), os.Symlink(filepath.Base(link), link+"2"+suffix)); err != nil {
				t.Fatal(err)
			}
			targets = append(targets, link, link+"2"+suffix)
		}
		for _, target := range targets {
			for _, args := range [][]string{
				{"export", target}, {"export", "a", target}, {"filters", "export", target},
				{"repair", target}, {"repair", other, target}, {"checkpoint", target},
			} {
				if args[0] == "checkpoint" && target != path {
					continue // it takes a sync or two
				}
				n++
				from := own
				if args[0] == "checkpoint" {
					from = third // which opens for writing, and so goes on
				}
				if out, notes, st := call("", append([]string{"-C", from}, args...)...); st != command.Failed || !strings.HasPrefix(notes, "shale: ") {
					t.Fatalf("%v: status %d, %s%s", args, st, out, notes)
				}
			}
		}
	}
	for i, dir := range []string{own, other} {
		if !maps.Equal(filesOf(t, dir), before[i]) {
			t.Errorf("%s has changed", filepath.Base(dir))
		}
		if out, _, st := call("", dir, "check"); st != command.Found {
			t.Errorf("%s", out)
		}
	}
	t.Logf("%d commands", n)
}
