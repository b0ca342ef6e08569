package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/MOVING.md names calls, types and options of other stores. Each name in the first columns of its tables must be in the
// packages of that store. LevelDB is not written in Go, so nothing checks its table.
func TestMoving_NamesOfOtherStores(t *testing.T) {
	page, err := os.ReadFile("../../docs/MOVING.md")
	if err != nil {
		t.Fatal(err)
	}
	const badger, pebble, goleveldb = "github.com/dgraph-io/badger/v4", "github.com/cockroachdb/pebble/v2", "github.com/syndtr/goleveldb/leveldb"
	for store, packages := range map[string][]string{
		"bbolt":     {"go.etcd.io/bbolt"},
		"Badger":    {badger},
		"Pebble":    {pebble, pebble + "/vfs", pebble + "/internal/base"},
		"goleveldb": {goleveldb, goleveldb + "/errors", goleveldb + "/iterator", goleveldb + "/opt", goleveldb + "/storage", goleveldb + "/util"},
	} {
		declared := make(map[string]bool)
		for _, p := range packages {
			addDeclared(t, declared, p)
		}
		_, table, _ := strings.Cut(string(page), "\n| "+store+" | shale |\n|---|---|\n")
		table, _, _ = strings.Cut(table, "\n\n")
		checked := 0
		for line := range strings.Lines(table) {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
			for _, name := range regexp.MustCompile(`\b[A-Z]\w*`).FindAllString(strings.Join(regexp.MustCompile("`[^`]*`").FindAllString(first, -1), " "), -1) {
				checked++
				if !declared[name] {
					t.Errorf("docs/MOVING.md names %s, which %s does not have: %s", name, store, line)
				}
			}
		}
		if checked < 15 {
			t.Errorf("%s: %d names in the table", store, checked)
		}
	}
}

// addDeclared adds the exported names that a package declares: functions, methods, types, values and fields.
func addDeclared(t *testing.T, names map[string]bool, importPath string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", importPath).Output()
	if err != nil {
		t.Fatalf("%s: %v", importPath, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var declared []*ast.Ident
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared = []*ast.Ident{n.Name}
			case *ast.TypeSpec:
				declared = []*ast.Ident{n.Name}
			case *ast.ValueSpec:
				declared = n.Names
			case *ast.Field:
				declared = n.Names
			}
			for _, d := range declared {
				names[d.Name] = names[d.Name] || d.IsExported()
			}
			return true
		})
	}
}
