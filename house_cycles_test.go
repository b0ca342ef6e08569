package shale

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// mostInACircle is how many files of the root may call each other in a circle. A reader
// has to know all of them to know one. It goes down, and never up: without calls by way of fields
// no circle has more than 3.
const mostInACircle = 4

// TestHouse_Circles computes which files of the root call functions of which, and fails if
// too many can be reached from each other.
func TestHouse_Circles(t *testing.T) {
	testenv.SkipRace(t)
	calls := callsAmongFiles(t)
	if len(calls["db.go"]) < 3 || len(calls["flush.go"]) < 3 {
		t.Fatalf("calls of db.go: %v, of flush.go: %v: some are not seen", calls["db.go"], calls["flush.go"])
	}
	reached := make(map[string]map[string]bool)
	for file := range calls {
		reached[file] = make(map[string]bool)
		reach(calls, file, reached[file])
	}
	for file, all := range reached {
		var circle []string
		for other := range all {
			if reached[other][file] {
				circle = append(circle, other)
			}
		}
		if len(circle) > mostInACircle {
			slices.Sort(circle)
			t.Errorf("%s is one of %d files that call each other in a circle, want %d at most: %v", file, len(circle), mostInACircle, circle)
		}
	}
}

// reach adds the files that are reached from one to all.
func reach(calls map[string]map[string]bool, from string, all map[string]bool) {
	for to := range calls[from] {
		if !all[to] {
			all[to] = true
			reach(calls, to, all)
		}
	}
}

// callsAmongFiles returns which other files of the root the functions of each file call, or give away as values. What is
// called by way of a field counts as well.
func callsAmongFiles(t *testing.T) map[string]map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// Other packages stay empty: what the root calls of itself is known without them.
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	pkg, _ := conf.Check("shale", fset, files, info) // the errors are about the other packages
	fileOf := func(o types.Object) string { return fset.Position(o.Pos()).Filename }
	// A function that a field of a struct gets is called where the field is used.
	given := make(map[types.Object][]string)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if key, ok := pair.Key.(*ast.Ident); ok {
				switch value := pair.Value.(type) {
				case *ast.FuncLit:
					given[info.Uses[key]] = append(given[info.Uses[key]], fset.Position(value.Pos()).Filename)
				case *ast.SelectorExpr:
					if fn, ok := info.Uses[value.Sel].(*types.Func); ok && fn.Pkg() == pkg {
						given[info.Uses[key]] = append(given[info.Uses[key]], fileOf(fn))
					}
				}
			}
			return true
		})
	}
	calls := make(map[string]map[string]bool)
	for _, f := range files {
		from := fset.Position(f.Pos()).Filename
		calls[from] = make(map[string]bool)
		add := func(to string) {
			if to != from {
				calls[from][to] = true
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			switch used := info.Uses[name].(type) {
			case *types.Func: // called, or given away
				if used.Pkg() == pkg {
					add(fileOf(used))
				}
			case *types.Var:
				for _, to := range given[used] {
					add(to)
				}
			}
			return true
		})
	}
	return calls
}

// emptyPackages imports each package as one without any names.
type emptyPackages struct{}

func (emptyPackages) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
