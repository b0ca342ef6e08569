package shale_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// What a comment of a package that programs import has in brackets, as a link to a name, is a name of the package. Else
// pkg.go.dev shows the brackets, and the name is one that was renamed.
func TestComments_Links(t *testing.T) {
	testenv.SkipRace(t)
	unresolved, links := regexp.MustCompile(`(?:^|[\s(])(\[\*?[A-Z]\w*(?:\.[A-Z]\w*)?\])`), 0
	for _, dir := range entryPoints {
		p := packageDocs(t, dir)
		check := func(name, text string) {
			d := p.Parser().Parse(text)
			links += strings.Count(string(new(comment.Printer).HTML(d)), `<a href="`)
			d.Links = nil // what names addresses, such as "[guide]: https://…"
			printed := string((&comment.Printer{TextWidth: -1}).Text(d))
			for _, m := range unresolved.FindAllStringSubmatch(printed, -1) {
				t.Errorf("%s: the comment of %s links to %s, which is not there", dir, name, m[1])
			}
		}
		check("the package", p.Doc)
		funcs := p.Funcs
		for _, typ := range p.Types {
			check(typ.Name, typ.Doc)
			funcs = append(append(funcs, typ.Funcs...), typ.Methods...)
		}
		for _, f := range funcs {
			check(f.Name, f.Doc)
		}
	}
	if links < 300 {
		t.Errorf("only %d links were found", links)
	}
}

func packageDocs(t *testing.T, dir string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/shaledb/shale/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
