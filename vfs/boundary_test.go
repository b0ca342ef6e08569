package vfs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The store must use files through an FS only. Otherwise tests could not
// make them crash or fail. These names may be used outside this package.
var (
	allowedOS      = regexp.MustCompile(`^(Err\w+|Getpid|Getenv|Stdin|Stdout|Stderr|Args|Exit|Getpagesize|Signal|Interrupt)$`)
	allowedSyscall = regexp.MustCompile(`^(E[A-Z0-9]+|Errno|Rlimit|Getrlimit|RLIMIT_NOFILE|SIG[A-Z]+)$`) // to recognize errors, for how many files may be open, and signals
	bannedFilepath = regexp.MustCompile(`^(Walk|WalkDir|Glob|EvalSymlinks)$`)
	bannedImports  = regexp.MustCompile(`^(io/ioutil|golang\.org/x/sys/.*)$`)
)

// outside are the folders that belong to the module and not to the store.
var outside = []string{"vfs", "cmd", "bench", "bloom/internal/filtertest", "examples", "internal/benchmark", "internal/offheap", "internal/outfile", "internal/pauses",
	"internal/testenv", "internal/testkeys", "internal/testrun", "test"}

func TestBoundary_FilesOnlyThroughVFS(t *testing.T) {
	root, err := filepath.Abs("..")
	must(t, err)
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("not in the module's tree")
	}
	files := 0
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(root, path)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, complaint := range trespasses(t, path, src) {
			t.Error(complaint)
		}
		return nil
	}))
	if files == 0 {
		t.Error("found no files to check")
	}
}

// skip returns SkipDir for folders that are not part of the store, other modules included.
func skip(root, dir string) error {
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return err
	}
	_, err = os.Stat(filepath.Join(dir, "go.mod"))
	if err == nil || slices.Contains(outside, filepath.ToSlash(rel)) || strings.HasPrefix(filepath.Base(dir), ".") || filepath.Base(dir) == "testdata" {
		return filepath.SkipDir
	}
	return nil
}

// trespasses returns the uses of a file that are not allowed.
// A file that does not parse is left to the compiler.
func trespasses(t *testing.T, path string, src []byte) (complaints []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Logf("%s: %v", path, err)
		return nil
	}
	at := func(n ast.Node, what string) {
		complaints = append(complaints, set.Position(n.Pos()).String()+": "+what+" outside package vfs")
	}
	local := make(map[string]string) // package names in this file
	for _, imp := range file.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue
		}
		alias := filepath.Base(name)
		if imp.Name != nil {
			alias = imp.Name.Name
		}
		local[alias] = name
		watched := name == "os" || name == "syscall" || name == "path/filepath"
		if bannedImports.MatchString(name) || watched && alias == "." {
			at(imp, "import of "+name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && !allowed(local[x.Name], sel.Sel.Name) {
			at(sel, x.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return complaints
}

func allowed(pkg, name string) bool {
	switch pkg {
	case "os":
		return allowedOS.MatchString(name)
	case "syscall":
		return allowedSyscall.MatchString(name)
	case "path/filepath":
		return !bannedFilepath.MatchString(name)
	}
	return true
}
