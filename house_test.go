package shale

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The limits of the house. They go down as owners move out of the root, and never up: the
// aim is 25 fields and 30 files.
const (
	mostFields = 23 // of DB
	mostFiles  = 30 // of the root, without tests
)

// TestHouse_Limits keeps the root from growing again: state gets an owner, and not a
// field of DB.
func TestHouse_Limits(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files, fields := 0, 0
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		files++
		if name == "db.go" {
			fields = fieldsOfDB(t, name)
		}
	}
	if fields == 0 || fields > mostFields {
		t.Errorf("DB has %d fields, want %d at most: give state an owner with a lock of its own", fields, mostFields)
	}
	if files == 0 || files > mostFiles {
		t.Errorf("the root has %d files, want %d at most", files, mostFiles)
	}
	if fields < mostFields || files < mostFiles {
		t.Errorf("%d fields and %d files: lower the limits of this test, which are %d and %d", fields, files, mostFields, mostFiles)
	}
}

// fieldsOfDB counts the fields of type DB, embedded ones too.
func fieldsOfDB(t *testing.T, name string) (n int) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "DB" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			n += max(1, len(f.Names))
		}
		return false
	})
	return n
}
