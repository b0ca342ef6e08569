package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A rewriter writes copies of packages with calls of package pause.
type rewriter struct {
	module  string
	fset    *token.FileSet
	exports map[string]string // file of export data, by import path
	sites   []string          // file:line, and a number if a line has several
	names   map[string]int    // number of sites, by file:line
}

const (
	module = "github.com/shaledb/shale"
	local  = "pauses_" // name under which copies import package pause
)

// A listed is the output of go list for a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// overlay writes copies of the packages into dir, and a file for go's -overlay that lists
// them. It returns the name of that file.
func (w *rewriter) overlay(root, dir string, packages []string, flags []string) (string, error) {
	var all []listed
	args := append(append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, flags...), packages...)
	c := exec.Command("go", args...)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", fmt.Errorf("go list: %w", err)
		}
		w.exports[l.ImportPath] = l.Export
		all = append(all, l)
	}
	replace := make(map[string]string)
	for _, l := range all {
		if !slices.Contains(packages, "./"+strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, w.module), "/")) {
			continue
		}
		if err := w.pkg(l, filepath.Join(dir, strings.ReplaceAll(l.ImportPath, "/", "-")), root, replace); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o666)
}

// pkg copies those files of a package that have sites into the folder to, and adds
// them to replace. It checks the types of the package, because only types show
// which calls are of package sync.
func (w *rewriter) pkg(l listed, to, root string, replace map[string]string) error {
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	files := make([]*ast.File, len(l.GoFiles))
	for i, name := range l.GoFiles {
		var err error
		if files[i], err = parser.ParseFile(w.fset, filepath.Join(l.Dir, name), nil, parser.ParseComments); err != nil {
			return err
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(w.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(w.exports[path])
	})}
	if _, err := config.Check(l.ImportPath, w.fset, files, info); err != nil {
		return err
	}
	for i, name := range l.GoFiles {
		file := filepath.Join(l.Dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		f := &rewriting{rewriter: w, info: info, name: filepath.ToSlash(rel), file: w.fset.File(files[i].Pos())}
		f.insert(files[i].Name.End(), fmt.Sprintf("; import %s %q", local, w.module+"/internal/pauses/pause"))
		ast.Walk(f, files[i])
		// The only edit is the import, so the file has no sites.
		if len(f.edits) == 1 {
			continue
		}
		copied := filepath.Join(to, name)
		if err := os.WriteFile(copied, f.apply(text), 0o666); err != nil {
			return err
		}
		replace[file] = copied
	}
	return nil
}

// A rewriting is the rewriting of one file. It inserts text, but never a line, so
// that line numbers stay the same.
type rewriting struct {
	*rewriter
	info  *types.Info
	name  string // path relative to the root of the module
	file  *token.File
	edits []edit
}

// An edit inserts text at an offset of the original file.
type edit struct {
	offset int
	text   string
}

// insert adds an edit.
func (f *rewriting) insert(at token.Pos, text string) {
	f.edits = append(f.edits, edit{f.file.Offset(at), text})
}

// apply returns text with all edits.
func (f *rewriting) apply(text []byte) []byte {
	slices.SortStableFunc(f.edits, func(a, b edit) int { return a.offset - b.offset })
	var out []byte
	done := 0
	for _, e := range f.edits {
		out = append(append(out, text[done:e.offset]...), e.text...)
		done = e.offset
	}
	return append(out, text[done:]...)
}

// site makes a site at a position, and returns its number.
func (f *rewriting) site(at token.Pos) int {
	name := fmt.Sprintf("%s:%d", f.name, f.file.Line(at))
	if f.names[name]++; f.names[name] > 1 {
		name = fmt.Sprintf("%s.%d", name, f.names[name])
	}
	f.sites = append(f.sites, name)
	return len(f.sites) - 1
}

// Visit implements ast.Visitor. It inserts the pauses: after statements, at the beginning
// of the cases of a select, around calls that return a value, and around deferred calls.
func (f *rewriting) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if special(n.Doc) {
			return nil
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.insert(n.Colon+1, fmt.Sprintf(" %s.At(%d);", local, f.site(n.Colon)))
		f.statements(n.Body)
	case *ast.DeferStmt:
		if results, ok := f.synchronizes(n.Call); ok && results == 0 && len(n.Call.Args) == 0 {
			f.insert(n.Call.Pos(), local+".Later(")
			f.insert(n.Call.Fun.End(), fmt.Sprintf(", %d)", f.site(n.Call.Pos())))
		}
		f.inside(n.Call)
		return nil
	case *ast.GoStmt:
		f.inside(n.Call)
		return nil
	case *ast.CallExpr:
		if results, ok := f.synchronizes(n); ok && results == 1 {
			f.insert(n.Pos(), local+".After(")
			f.insert(n.End(), fmt.Sprintf(", %d)", f.site(n.Pos())))
		}
	}
	return f
}

// inside visits the function and the arguments of a call that go or defer delays. They are
// evaluated at once, the call itself is not.
func (f *rewriting) inside(c *ast.CallExpr) {
	ast.Walk(f, c.Fun)
	for _, a := range c.Args {
		ast.Walk(f, a)
	}
}

// statements inserts a pause after each statement that synchronizes and has no value.
func (f *rewriting) statements(list []ast.Stmt) {
	for _, s := range list {
		end := s.End()
		for l, ok := s.(*ast.LabeledStmt); ok; l, ok = s.(*ast.LabeledStmt) {
			s = l.Stmt
		}
		switch s := s.(type) {
		case *ast.SendStmt:
		case *ast.ExprStmt:
			switch x := s.X.(type) {
			case *ast.UnaryExpr: // a receive
			case *ast.CallExpr:
				if results, ok := f.synchronizes(x); !ok || results != 0 {
					continue
				}
			default:
				continue
			}
		default:
			continue
		}
		f.insert(end, fmt.Sprintf("; %s.At(%d)", local, f.site(s.Pos())))
	}
}

// synchronizes reports whether c is a call of sync/atomic or of a lock, and how
// many results it has.
func (f *rewriting) synchronizes(c *ast.CallExpr) (results int, ok bool) {
	sel, isSelector := ast.Unparen(c.Fun).(*ast.SelectorExpr)
	if !isSelector {
		return 0, false
	}
	fn, isFunc := f.info.Uses[sel.Sel].(*types.Func)
	if !isFunc || fn.Pkg() == nil {
		return 0, false
	}
	switch fn.Pkg().Path() {
	case "sync/atomic":
	case "sync":
		if !slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock", "TryLock", "TryRLock", "Wait", "Done"}, fn.Name()) {
			return 0, false
		}
	default:
		return 0, false
	}
	return fn.Signature().Results().Len(), true
}

// special reports whether a function must not be changed, because the compiler or the
// runtime gives it a special treatment.
func special(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:") && c.Text != "//go:noinline"
	})
}

func newRewriter(module string) *rewriter {
	return &rewriter{module: module, fset: token.NewFileSet(), exports: make(map[string]string), names: make(map[string]int)}
}
