package resptest

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Tool returns a program of one of Debian's packages redis-tools and redis-server. Without it, the test skips.
func Tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: apt-get install redis-tools redis-server", name)
	}
	return path
}

// ShowsSession checks that redis-cli, whose path is cli, shows what a page in Markdown says: the first session in
// it whose commands stand behind prompt.
func ShowsSession(t *testing.T, cli, addr, page, prompt string) {
	t.Helper()
	var commands, want strings.Builder
	for line := range strings.Lines(page) {
		line, inBlock := strings.CutPrefix(line, "    ")
		if command, ok := strings.CutPrefix(line, prompt); ok && inBlock {
			commands.WriteString(command)
		} else if inBlock && commands.Len() > 0 {
			want.WriteString(line)
		} else if strings.HasPrefix(line, "#") && commands.Len() > 0 {
			break
		}
	}
	cmd := command(t, cli, addr, "--no-raw")
	cmd.Stdin = strings.NewReader(commands.String())
	got, err := cmd.CombinedOutput()
	if err != nil || string(got) != want.String() || commands.Len() == 0 {
		t.Errorf("%s\ngave, %v,\n%s\nand the page has\n%s", commands.String(), err, got, want.String())
	}
}

// Benchmark runs redis-benchmark, whose path is tool, with n calls of each of what, alone and in pipelines. It
// must get no error, but for the one of a group whose leader a busy machine has replaced: then it begins again.
func Benchmark(t *testing.T, tool, addr, n string, what ...string) {
	t.Helper()
	for _, what := range what {
		for _, pipeline := range []string{"1", "16"} {
			args := append([]string{"-q", "-n", n, "-c", "10", "-r", "1000", "-P", pipeline}, strings.Fields(what)...)
			out, err := command(t, tool, addr, args...).CombinedOutput()
			for range 20 {
				if err == nil || !bytes.Contains(out, []byte("Error from server: UNKNOWN ")) {
					break
				}
				out, err = command(t, tool, addr, args...).CombinedOutput()
			}
			if text := string(out); err != nil || !strings.Contains(text, "requests per second") || strings.Contains(text, "rror") || strings.Contains(text, "WARNING") {
				t.Errorf("%s: %v, %s", what, err, text)
			}
		}
	}
}

// command returns a tool that is to ask the server at addr. It has five minutes, for a busy machine.
func command(t *testing.T, tool, addr string, args ...string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, tool, append([]string{"-h", host, "-p", port}, args...)...)
}
