package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// docs/COMMAND.md has examples for each command: doc/sections has a heading for it and a line to run.
func TestEveryCommandHasASection(t *testing.T) {
	files, err := filepath.Glob("doc/sections/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]int{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		heading := ""
		for line := range strings.Lines(string(b)) {
			if h, ok := strings.CutPrefix(line, "== "); ok {
				heading = strings.TrimSpace(h)
			} else if strings.HasPrefix(line, "$ ") {
				examples[heading]++
			}
		}
	}
	for _, g := range command.Groups() {
		for _, makes := range g.Commands {
			if name := makes().Title; examples[name] == 0 {
				t.Errorf("%s has no example in doc/sections: write `== %s` and lines `$ shale ...`", name, name)
			}
		}
	}
}
