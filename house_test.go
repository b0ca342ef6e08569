package shale

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostFields is how many fields DB may have. It goes down as owners move out of the root, and
// never up.
const mostFields = 22

// TestHouse_Limits keeps DB from growing again: state gets an owner, and not a field of DB.
func TestHouse_Limits(t *testing.T) {
	if fields := fieldsOfDB(t, "db.go"); fields != mostFields {
		t.Errorf("DB has %d fields, want %d: give state an owner with a lock of its own, or lower the limit", fields, mostFields)
	}
}

// TestHouse_FirstSentence checks that each file of the root says first what it holds, so that
// nothing else gets into it.
func TestHouse_FirstSentence(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "db.go" {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		first, begin := "", token.Pos(math.MaxInt)
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.IMPORT {
				begin = min(begin, d.Pos())
			}
		}
		if len(file.Comments) > 0 && file.Comments[0].Pos() < begin {
			first = file.Comments[0].Text()
		}
		if !strings.HasPrefix(first, "This file ") {
			t.Errorf("%s begins with %.60q, want a sentence that begins with \"This file\" and says what it has", name, first)
		}
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

// otherTestFiles are the test files of the root that test no single file of it, by what
// comes before _test.go, each with its reason. The name may go on after an underscore.
var otherTestFiles = map[string]string{
	"example": "go doc and its readers look for examples there",
	"helpers": "tests of many files share them",
	"house":   "checks the project as a whole",
}

// mostTestLines is how long a test file of the root may be.
const mostTestLines = 500

// TestHouse_TestFilesBearNames holds the tests of a file of the root next to it: those of
// get.go are in get_test.go, and in get_alloc_test.go or the like, so that whoever changes
// a file finds its tests.
func TestHouse_TestFilesBearNames(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	tested := make(map[string]bool)
	for _, file := range files {
		if name, isTest := strings.CutSuffix(file, "_test.go"); isTest {
			if subject := subjectOf(name); subject != "" {
				tested[subject] = true
			} else {
				t.Errorf("%s bears the name of no file of the root: a test of FILE.go stands in FILE_test.go or FILE_TOPIC_test.go", file)
			}
			source, err := os.ReadFile(file)
			if n := bytes.Count(source, []byte("\n")); err != nil || n > mostTestLines {
				t.Errorf("%s has %d lines, want %d at most: %v", file, n, mostTestLines, err)
			}
		}
	}
	for name := range otherTestFiles {
		if !tested[name] {
			t.Errorf("there is no test file %s: take it from the list", name)
		}
	}
}

// subjectOf returns the file of the root, without .go, that a test file is named after, or
// the entry of otherTestFiles; nothing if there is neither. Of open_chdir it is open.
func subjectOf(name string) string {
	for {
		_, other := otherTestFiles[name]
		if _, err := os.Stat(name + ".go"); err == nil || other {
			return name
		}
		i := strings.LastIndexByte(name, '_')
		if i < 0 {
			return ""
		}
		name = name[:i]
	}
}
