package cluster

import (
	"os"
	"strings"
	"testing"
)

// docs/GROUP.md shows the same program twice, and both are compiled as examples.
func TestExamples_AreInTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/GROUP.md")
	mustNil(t, err)
	code, err := os.ReadFile("example_test.go")
	mustNil(t, err)
	for _, name := range []string{"countAlone", "countInGroup"} {
		_, fn, ok := strings.Cut(string(code), "\n// "+name+" ")
		body, _, end := strings.Cut(fn, "\n}\n")
		if !ok || !end || !strings.Contains(string(page), "// "+name+" "+body+"\n}\n") {
			t.Errorf("docs/GROUP.md does not have %s as example_test.go has it", name)
		}
	}
}
