package suites

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mostLines is how many lines a program may have, without what it prints.
const mostLines = 60

// TestExamples runs the examples of programs with go-redis on shaled, and on redis-server if it has their commands. Each prints what
// stands at its end.
func TestExamples(t *testing.T) {
	const dir = "../../shaled/examples"
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), dir+"/...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	shaled, redis := serve(t).addr, startRedis(t)
	for _, name := range []string{"session", "limiter", "lock", "seen"} {
		text, err := os.ReadFile(filepath.Join(dir, name, "main.go"))
		mustNil(t, err)
		code, want, _ := strings.Cut(string(text), "\n// Output:\n")
		if n := strings.Count(code, "\n"); n > mostLines {
			t.Errorf("%s has %d lines", name, n)
		}
		want = strings.ReplaceAll("\n"+want, "\n// ", "\n")[1:]
		check := func(t *testing.T, addr string) {
			if got, err := exec.Command(filepath.Join(bin, name), "-addr", addr).CombinedOutput(); err != nil || string(got) != want {
				t.Errorf("it prints %q, %v, and not %q", got, err, want)
			}
		}
		t.Run(name, func(t *testing.T) { check(t, shaled) })
		t.Run(name+" with Redis", func(t *testing.T) {
			switch {
			case redis == "":
				t.Skip("no redis-server: Debian's package is redis-server")
			case name == "lock" || name == "seen":
				t.Skip("Redis 7 lacks DELIFEQ and BF.RESERVE")
			}
			check(t, redis)
		})
	}
}

// startRedis starts redis-server, and returns where it answers, or "" if there is none here.
func startRedis(t *testing.T) (addr string) {
	tool, err := exec.LookPath("redis-server")
	if err != nil {
		return ""
	}
	addr, port := free(t)
	cmd := exec.Command(tool, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	mustNil(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()         // it was killed
	})
	answers(t, addr)
	return addr
}
