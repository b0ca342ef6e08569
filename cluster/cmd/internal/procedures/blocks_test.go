//go:build unix

// Package procedures runs what the operator's pages say, docs/SHALED.md, docs/GROUP.md and docs/OPERATIONS.md: each
// block of shell commands, and each file that they show, is used by a test as it stands. machine_test.go says what a
// machine of such a test is.
//
// A block begins with ``` and its kind. What stands behind that on the line decides what becomes of the block:
//
//	```sh NAME              a test runs it
//	```ini /PATH            a test has it as a file
//	```sh not run: REASON   no test can run it
//
// Blocks of Go are compiled as examples, and blocks of text show formats and output. There are no others, but for one
// redis-cli session, which is indented; package program runs it and compares what it prints.
package procedures

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// root is the top of the repository, as this package's tests see it.
const root = "../../../.."

var pages = []string{"docs/SHALED.md", "docs/GROUP.md", "docs/OPERATIONS.md"}

// mostNotRun is how many blocks may be marked as such that no test can run.
const mostNotRun = 0

// A block is a part of a page between two lines of ```.
type block struct {
	where      string // page and line
	kind, name string // what stands behind ```
	text       string
}

const notRun = "not run: "

var fence = regexp.MustCompile("^( *)```(\\w*) ?(.*)$")

// session is the first line of a session of redis-cli.
var session = regexp.MustCompile(`^    127\.0\.0\.1:638[01]> `)

// readBlocks returns the blocks of a page.
func readBlocks(page string) ([]block, error) {
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	var all []block
	var open *block
	var indent, before string
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && m != nil:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case m != nil:
			indent = m[1]
			open = &block{where: fmt.Sprintf("%s:%d", page, number), kind: m[2], name: m[3]}
		case strings.HasPrefix(line, "    ") && strings.TrimSpace(before) == "" && !session.MatchString(line):
			return nil, fmt.Errorf("%s:%d: a block of code without ``` is not seen by the tests", page, number)
		}
		before = line
	}
	if open != nil {
		return nil, fmt.Errorf("%s: ``` has no end", open.where)
	}
	return all, nil
}

// Each block of commands has a name, or says why no test runs it, and no name is used twice.
func TestPages_EachBlockIsNamed(t *testing.T) {
	names := make(map[string]string)
	inAll, can := 0, 0
	for _, page := range pages {
		blocks, err := readBlocks(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			inAll++
			switch runs := b.kind == "sh" || b.kind == "ini"; {
			case !runs && b.kind != "go" && b.kind != "text":
				t.Errorf("%s: there is nothing to do with a block %q: it is sh, ini, go or text", b.where, b.kind)
			case !runs:
			case b.name == "":
				t.Errorf("%s: behind %s the line needs a name, by which a test runs the block", b.where, b.kind)
			case strings.HasPrefix(b.name, notRun):
				can++
				t.Logf("%s is %s", b.where, b.name)
			case names[b.name] != "":
				t.Errorf("%s: %s is the name of the block at %s too", b.where, b.name, names[b.name])
			default:
				names[b.name] = b.where
			}
		}
	}
	t.Logf("%d blocks, of which tests use %d and can't use %d", inAll, len(names), can)
	if can > mostNotRun {
		t.Errorf("%d blocks are not run, at most %d may be", can, mostNotRun)
	}
}

// used has the blocks that tests have used, by name.
var used = struct {
	mu    sync.Mutex
	names map[string]bool
	skips int // tests that could not use theirs
}{names: make(map[string]bool)}

// find returns a block by its name, and notes that it is used.
func find(t *testing.T, name string) string {
	t.Helper()
	text, err := lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// inPages returns a command that a page has in the middle of its text, as `COMMAND`.
func inPages(t *testing.T, command string) string {
	t.Helper()
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.Join(strings.Fields(string(text)), " "), "`"+command+"`") {
			return command
		}
	}
	t.Fatalf("no page has the command `%s`", command)
	return ""
}

func lookup(name string) (string, error) {
	for _, page := range pages {
		blocks, err := readBlocks(page)
		if err != nil {
			return "", err
		}
		for _, b := range blocks {
			if b.name == name {
				used.mu.Lock()
				used.names[name] = true
				used.mu.Unlock()
				return b.text, nil
			}
		}
	}
	return "", fmt.Errorf("no page has a block %q", name)
}

// TestMain runs the tests. If all of them were run, each block with a name was used.
func TestMain(m *testing.M) {
	status := m.Run()
	if programsDir != "" {
		_ = os.RemoveAll(programsDir) // a temporary folder
	}
	if status == 0 && used.skips == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		if forgotten := notUsed(); len(forgotten) > 0 {
			fmt.Printf("FAIL: no test uses these blocks:\n%s\n", strings.Join(forgotten, "\n"))
			status = 1
		}
	}
	os.Exit(status)
}

// notUsed returns the blocks that no test has used.
func notUsed() []string {
	forgotten := make(map[string]bool)
	for _, page := range pages {
		blocks, err := readBlocks(page)
		if err != nil {
			return []string{err.Error()}
		}
		for _, b := range blocks {
			if b.name != "" && !strings.HasPrefix(b.name, notRun) && !used.names[b.name] {
				forgotten[b.where+": "+b.name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(forgotten))
}
