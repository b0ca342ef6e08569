package boltbench

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// foreign are the tests of raft-boltdb that are about the file of bbolt, and not about a log.
var foreign = map[string]string{
	"TestBoltOptionsTimeout":    "bbolt's lock: shale has Options.LockTimeout",
	"TestBoltOptionsReadOnly":   "an error of bbolt",
	"TestNewBoltStore":          "bbolt's buckets",
	"TestBoltStore_MigrateToV2": "files of an older bolt",
}

// TestRaftBoltdb runs raft-boltdb's own tests, and its benchmarks a hundred times each, with shale's log
// store. It takes them from the module cache.
func TestRaftBoltdb(t *testing.T) {
	dir := strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/raft-boltdb/v2"))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for _, name := range []string{"bolt_store_test.go", "bench_test.go"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, withoutForeign(t, filepath.Join(dir, name)), 0o666); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(here, "suite", name)] = file
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, text, 0o666); err != nil {
		t.Fatal(err)
	}
	out := run(t, "go", "test", "-v", "-bench", ".", "-benchtime", "100x", "-overlay", list, "./suite")
	tests, benchmarks := strings.Count(out, "--- PASS: TestBoltStore"), strings.Count(out, " ns/op")
	if tests < 8 || benchmarks < 10 {
		t.Errorf("%d tests and %d benchmarks ran, want 8 and 10 or more:\n%s", tests, benchmarks, out)
	}
	t.Logf("%d tests and %d benchmarks of raft-boltdb pass", tests, benchmarks)
}

// run runs a command and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // the tests leave their directories behind
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// withoutForeign returns a file of Go without the foreign tests, and without the imports that only they need.
func withoutForeign(t *testing.T, name string) []byte {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kept []ast.Decl
	used := make(map[string]bool)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && foreign[f.Name.Name] != "" {
			continue
		}
		kept = append(kept, d)
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					used[x.Name] = true
				}
			}
			return true
		})
	}
	file.Decls = kept
	for _, d := range kept {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.IMPORT {
			continue
		}
		var specs []ast.Spec
		for _, s := range g.Specs {
			if used[importName(t, s.(*ast.ImportSpec))] {
				specs = append(specs, s)
			}
		}
		g.Specs = specs
	}
	var text bytes.Buffer
	if err := printer.Fprint(&text, files, file); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// importName returns the name by which a file knows what it imports.
func importName(t *testing.T, s *ast.ImportSpec) string {
	if s.Name != nil {
		return s.Name.Name
	}
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		t.Fatal(err)
	}
	if name := path.Base(p); name != "bench" {
		return name
	}
	return "raftbench"
}
