// Package doc makes docs/COMMAND.md and sees that it is up to date. The page shows the help of each
// command of cmd/shale, and what it prints for a store of real hosts. To make it again:
//
//	go test -C cmd ./shale/doc -rewrite
//
// It builds shale, asks it for its commands and their help, and runs examples in a temporary
// folder. The examples are in the files of the folder sections, which look like this:
//
//	== get
//	Prose, as Markdown has it.
//
//	$ shale -C hosts.db get 1.example
//	> a line that continues the one before
//
// The name after == is that of a command. With a # in front it is the title of a topic; topics
// come before the commands. Times are masked, so that each run makes the same page.
package doc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// A section is the text about a command or a topic, without the help of the command.
type section struct {
	name string
	text string // prose, and command lines to run
}

// readSections reads all files of a folder.
func readSections(dir string) ([]section, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no sections in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	var all []section
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			if title, ok := strings.CutPrefix(line, "== "); ok {
				all = append(all, section{name: strings.TrimSpace(title)})
			} else if len(all) > 0 {
				all[len(all)-1].text += line
			}
		}
	}
	return all, nil
}

// A maker runs commands in a folder.
type maker struct {
	dir string   // a new temporary folder
	env []string // its PATH has the program
}

// makePage returns the text of the page.
func makePage(sections, data string) (string, error) {
	all, err := readSections(sections)
	if err != nil {
		return "", err
	}
	m, err := newMaker(data)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(m.dir)
	byName := map[string]string{}
	var b strings.Builder
	b.WriteString("# The command\n\nMade by `go test -C cmd ./shale/doc -rewrite`; its sources are in cmd/shale/doc/sections.\n")
	for _, s := range all {
		title, isTopic := strings.CutPrefix(s.name, "# ")
		if !isTopic {
			byName[s.name] += s.text
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", title)
		if err := m.write(&b, s.text); err != nil {
			return "", fmt.Errorf("%s: %w", title, err)
		}
	}
	for _, group := range command.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", group.Title)
		for _, makes := range group.Commands {
			name := makes().Title
			help, err := m.printed("shale help " + name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "\n### %s\n\n```text\n%s```\n", name, help)
			if err := m.write(&b, byName[name]); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return b.String(), nil
}

// every says that the examples use one of this many hosts. Such a store is so small that only the
// commands shown flush it, so the figures do not depend on the speed of the machine.
const every = 22

// newMaker builds the program, and writes the lists of hosts into a new folder.
func newMaker(data string) (*maker, error) {
	dir, err := os.MkdirTemp("", "shale-doc")
	if err != nil {
		return nil, err
	}
	m := &maker{dir: dir, env: []string{
		"PATH=" + filepath.Join(dir, ".bin") + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"HOME=" + dir, "LC_ALL=C", "TZ=UTC",
	}}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, ".bin", "shale"), "github.com/shaledb/shale/cmd/shale")
	if out, err := build.CombinedOutput(); err != nil {
		return m, errors.Join(fmt.Errorf("build shale: %w\n%s", err, out), os.RemoveAll(dir))
	}
	for name, from := range map[string]string{"hosts.txt": "malicious-hosts.txt", "visited.txt": "benign-hosts.txt"} {
		if err := thin(filepath.Join(dir, name), filepath.Join(data, from)); err != nil {
			return m, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return m, nil
}

// thin copies one of every so many lines, beginning with the first.
func thin(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var kept strings.Builder
	n := 0
	for line := range strings.Lines(string(b)) {
		if n%every == 0 {
			kept.WriteString(line)
		}
		n++
	}
	return os.WriteFile(to, []byte(kept.String()), 0o666)
}

// commandLines is a command and the lines that continue it.
var commandLines = regexp.MustCompile(`(?m)^\$ .*(?:\n> .*)*`)

// write writes the text of a section. It copies prose, and runs command lines and adds what they
// print.
func (m *maker) write(b *strings.Builder, text string) error {
	at, console := 0, false
	prose := func(text string) {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		if console {
			b.WriteString("```\n")
		}
		console = false
		b.WriteString("\n" + text + "\n")
	}
	for _, found := range commandLines.FindAllStringIndex(text, -1) {
		prose(text[at:found[0]])
		at = found[1]
		if !console {
			b.WriteString("\n```console\n")
		}
		console = true
		lines := text[found[0]:at]
		out, err := m.run(strings.ReplaceAll(lines[len("$ "):], "\n> ", "\n"))
		if err != nil {
			return err
		}
		b.WriteString(lines + "\n" + out)
	}
	prose(text[at:])
	if console {
		b.WriteString("```\n")
	}
	return nil
}

// longest is the longest time that a command may take.
const longest = 2 * time.Minute

// run returns what a command prints, with times masked.
func (m *maker) run(command string) (string, error) {
	out, err := m.printed(command)
	return mask(out), err
}

// printed returns what a shell command prints to standard output and standard error, and its
// status if it is not 0.
func (m *maker) printed(command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", "exec 2>&1\n"+command)
	c.Dir, c.Env = m.dir, m.env
	b, err := c.Output()
	out := string(b)
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return out + fmt.Sprintf("(status %d)\n", exit.ExitCode()), nil
	}
	return out, err
}

// masks are patterns for texts that differ from run to run, and what replaces them.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?:\(default )?(  ?)? *\b(\d+h)?(\d+m)?\d+(\.\d+)? ?(ns|µs|ms|s)\b`), "$1<time>"}, // in a column of any width
	{regexp.MustCompile(`(?m)  +time$`), "  time"},
	{regexp.MustCompile(`\d[\d,.]*( (B|KiB|MiB|GiB|MB|\w+s))/s`), "<rate>$1/s"},
	{regexp.MustCompile(`(?m)^memory: .*$`), "memory: <sizes>"},
	{regexp.MustCompile(`process \d+`), "process <number>"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?`), "<clock>"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d`), "<date>"},
}

func mask(out string) string {
	for _, m := range masks {
		out = m.what.ReplaceAllStringFunc(out, func(s string) string {
			if strings.HasPrefix(s, "(default ") {
				return s // what a help text says is the same in each run
			}
			return m.what.ReplaceAllString(s, m.with)
		})
	}
	return out
}
