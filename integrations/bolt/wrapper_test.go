package bbolt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// This file makes a module go.etcd.io/bbolt of this package, so that other programs use it without knowing.

const (
	boltPath = "go.etcd.io/bbolt"
	ourPath  = "github.com/shaledb/shale/integrations/bolt"
)

// download returns the directory of a module, and skips the test where it can't be had.
func download(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var m struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &m); err != nil || jsonErr != nil || m.Dir == "" {
		t.Skipf("%s can't be downloaded here: %v %s", module, err, m.Error)
	}
	return m.Dir
}

// wrap makes dir a module go.etcd.io/bbolt whose names are those of this package.
func wrap(t *testing.T, dir, bolt string) {
	t.Helper()
	write(t, filepath.Join(dir, "bbolt.go"), aliases(t))
	copyTree(t, filepath.Join(bolt, "errors"), filepath.Join(dir, "errors"))
	write(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("module %s\n\ngo 1.26.0\n%s", boltPath, ours(t)))
	write(t, filepath.Join(dir, "go.sum"), read(t, "go.sum"))
}

// ours returns the lines of a go.mod that lead to this module and to shale.
func ours(t *testing.T) string {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
require (
	%[1]s v0.0.0
	github.com/shaledb/shale v0.0.0
)

replace %[1]s => %[2]s

replace github.com/shaledb/shale => %[3]s
`, ourPath, here, filepath.Join(here, "..", ".."))
}

// add appends to a file.
func add(t *testing.T, name, text string) {
	t.Helper()
	write(t, name, read(t, name)+text)
}

// aliases returns a file that has another name for everything that this package exports.
func aliases(t *testing.T) string {
	t.Helper()
	var text bytes.Buffer
	fmt.Fprintf(&text, "package bbolt\n\nimport bolt %q\n\n", ourPath)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Type.TypeParams == nil && d.Name.IsExported() {
					fmt.Fprintf(&text, "var %[1]s = bolt.%[1]s\n", d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					alias(&text, d.Tok, s)
				}
			}
		}
	}
	return text.String()
}

func alias(text *bytes.Buffer, kind token.Token, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.TypeParams == nil {
			fmt.Fprintf(text, "type %[1]s = bolt.%[1]s\n", s.Name)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				fmt.Fprintf(text, "%[1]s %[2]s = bolt.%[2]s\n", kind, n)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// copyTree copies the Go files of a directory, and those below it. The module cache is read-only, a copy is not.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err == nil {
			write(t, filepath.Join(to, name), read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
