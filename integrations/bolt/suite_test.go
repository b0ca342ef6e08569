package bbolt

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
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSuite runs bbolt's own tests on this package. They come from the module cache, or from where modules come from.
func TestSuite(t *testing.T) {
	dir := t.TempDir()
	makeSuite(t, dir, download(t, boltPath+"@v1.5.0"))
	short := []string{"-short"} // SHALE_LONG=1 runs all, which takes minutes
	if os.Getenv("SHALE_LONG") != "" {
		short = nil
	}
	out := runTests(t, dir, ".", short...)
	t.Logf("of bbolt's tests %d pass, %d skip themselves, %d fail, %d are left out", len(out.passed), len(out.skipped), len(out.failed), len(leftOut(t)))
	for name, text := range out.failed {
		t.Errorf("%s:\n%s", name, text)
	}
}

// makeSuite makes dir a module with bbolt's tests. bolt is the directory of bbolt.
func makeSuite(t *testing.T, dir, bolt string) {
	t.Helper()
	wrap(t, dir, bolt)
	_, requires, _ := strings.Cut(read(t, filepath.Join(bolt, "go.mod")), "\nrequire ")
	requires, _, _ = strings.Cut(requires, "\ntool ") // what the tests need is in between
	add(t, filepath.Join(dir, "go.mod"), "\nrequire "+requires)
	add(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join(bolt, "go.sum")))
	for _, internal := range []string{"common", "btesting"} { // which the tests use
		copyTree(t, filepath.Join(bolt, "internal", internal), filepath.Join(dir, "internal", internal))
	}
	helpers := filepath.Join(dir, "internal", "btesting", "btesting.go") // it removes databases, which are directories here
	write(t, helpers, strings.ReplaceAll(read(t, helpers), "os.Remove(", "os.RemoveAll("))
	write(t, filepath.Join(dir, "content_test.go"), content)
	left := leftOut(t)
	files, err := filepath.Glob(filepath.Join(bolt, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if left[name] != "" {
			continue
		}
		text := without(t, file, left)
		if name == "movebucket_test.go" { // it compares databases by their files
			text = strings.ReplaceAll(text, "os.ReadFile(", "content(")
			text = strings.Replace(text, "\"os\"", "_ \"os\"", 1)
		}
		write(t, filepath.Join(dir, name), text)
	}
}

// content returns what a database has, as text.
const content = `package bbolt_test

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

func content(path string) (text []byte, err error) {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error { return dump(tx.Cursor().Bucket(), &text) })
	return text, err
}

func dump(b *bolt.Bucket, text *[]byte) error {
	*text = fmt.Appendf(*text, "sequence %d\\n", b.Sequence())
	return b.ForEach(func(k, v []byte) error {
		*text = fmt.Appendf(*text, "%x = %x\\n", k, v)
		if v == nil {
			return dump(b.Bucket(k), text)
		}
		return nil
	})
}
`

// leftOut returns the tests that are left out, with the reasons.
func leftOut(t *testing.T) map[string]string {
	left := make(map[string]string)
	for line := range strings.Lines(read(t, "testdata/leftout.txt")) {
		if name, why, ok := strings.Cut(strings.TrimSpace(line), " | "); ok {
			left[name] = why
		} else if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			t.Fatalf("leftout.txt: %q is no NAME | REASON", line)
		}
	}
	return left
}

// An outcome is what tests have come to, by name.
type outcome struct{ passed, skipped, failed map[string]string }

// runTests runs the tests of a package.
func runTests(t *testing.T, dir, pkg string, args ...string) outcome {
	t.Helper()
	cmd := exec.Command("go", slices.Concat([]string{"test", "-mod=mod", "-vet=off", "-timeout", "1h", "-json"}, args, []string{pkg})...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	out := outcome{map[string]string{}, map[string]string{}, map[string]string{}}
	texts := make(map[string]string)
	var began []string
	for line := range bytes.Lines(stdout) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		texts[e.Test] += e.Output
		if e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		switch e.Action {
		case "pass":
			out.passed[e.Test] = texts[e.Test]
		case "skip":
			out.skipped[e.Test] = texts[e.Test]
		case "fail":
			out.failed[e.Test] = texts[e.Test]
		case "run":
			began = append(began, e.Test)
		}
	}
	for _, name := range began {
		if out.passed[name]+out.skipped[name]+out.failed[name] == "" {
			out.failed[name] = "it has not ended" // the time limit, or a panic
		}
	}
	if len(out.failed) == 0 && err != nil || len(out.passed) == 0 {
		t.Fatalf("the tests did not run: %v\n%s%s", err, stderr.String(), texts[""])
	}
	return out
}

// without returns a file of Go without some functions, and without the imports that only these need.
func without(t *testing.T, name string, left map[string]string) string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	file.Decls = slices.DeleteFunc(file.Decls, func(d ast.Decl) bool {
		if f, ok := d.(*ast.FuncDecl); ok && left[f.Name.Name] != "" {
			file.Comments = slices.DeleteFunc(file.Comments, func(c *ast.CommentGroup) bool {
				return d.Pos() <= c.Pos() && c.End() <= d.End() || c == f.Doc
			})
			return true
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					used[x.Name] = true
				}
			}
			return true
		})
		return false
	})
	for _, s := range file.Imports {
		if !used[importName(t, s)] {
			s.Name = ast.NewIdent("_")
		}
	}
	var text bytes.Buffer
	if err := printer.Fprint(&text, files, file); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// importName returns the name by which a file knows what it imports.
func importName(t *testing.T, s *ast.ImportSpec) string {
	t.Helper()
	if s.Name != nil {
		return s.Name.Name
	}
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		t.Fatal(err)
	}
	return path.Base(p)
}
