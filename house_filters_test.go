package shale_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
)

// section returns the lines of a document below a heading.
func section(t *testing.T, name, heading string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", name, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	return below
}

// The last column of the table of names from elsewhere has names of the code as they are imported, such as
// `sketch.Exact` or `bloom.Filter.Add`. All of them exist, and no row is without a name or a link.
func TestFilters_NamesResolve(t *testing.T) {
	names, rows := make(map[string]map[string]bool), 0
	for pkg, dir := range map[string]string{
		"shale": ".", "bloom": "bloom", "sketch": "bloom/sketch", "hashes": "bloom/hashes",
		"guava": "bloom/compat/guava", "bip37": "bloom/compat/bip37",
	} {
		names[pkg] = exported(t, dir)
	}
	name := regexp.MustCompile("`([a-z][a-z0-9]*)\\.([A-Z][A-Za-z0-9.]*)[^`]*`")
	for line := range strings.Lines(section(t, "docs/FILTERS.md", "Names from elsewhere")) {
		columns := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(columns) != 2 || columns[0] == "elsewhere" {
			continue
		}
		rows++
		found := name.FindAllStringSubmatch(columns[1], -1)
		if len(found) == 0 && !strings.Contains(columns[1], "](") && !strings.HasPrefix(columns[1], "not here") {
			t.Errorf("the row of %s leads to no name", columns[0])
		}
		for _, m := range found {
			if !names[m[1]][m[2]] {
				t.Errorf("the row of %s: there is no %s.%s", columns[0], m[1], m[2])
			}
		}
	}
	if rows < 25 {
		t.Errorf("%d rows", rows)
	}
}

// exported returns the names of a package: of what it declares, and of methods and fields behind their type.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(names, s)
				}
			}
		}
	}
	return names
}

// receiver returns the type of a method and a dot, and nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	return fmt.Sprint(typ) + "."
}

// addSpec adds what a declaration that is no function declares.
func addSpec(names map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		if fields, ok := s.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					names[s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}

// The rates that docs/FILTERS.md has for bits and probes are those of theory.
func TestFilters_Rates(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| ([\d.]+) % \|`).FindAllStringSubmatch(section(t, "docs/FILTERS.md", "Filters alone"), -1)
	if len(rows) < 5 {
		t.Errorf("%d rows", len(rows))
	}
	for _, m := range rows {
		bits, err := strconv.ParseUint(m[1], 10, 64)
		k, err2 := strconv.Atoi(m[2])
		if err != nil || err2 != nil {
			t.Fatal(m[0])
		}
		rate := strconv.FormatFloat(100*bloom.SizeFPR(bits*1e6, k, 1e6), 'f', len(m[3])-1-strings.IndexByte(m[3], '.'), 64)
		if rate != m[3] {
			t.Errorf("%s: %s %% pass", m[0], rate)
		}
	}
}
