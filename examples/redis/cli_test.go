package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// tool returns a program of Debian's package redis-tools.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: apt-get install redis-tools", name)
	}
	return path
}

// The session of the README is what redis-cli shows.
func TestREADME_Session(t *testing.T) {
	cli := tool(t, "redis-cli")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "127.0.0.1:6380> "
	var commands, want strings.Builder
	for line := range strings.Lines(string(readme)) {
		line, inBlock := strings.CutPrefix(line, "    ")
		if command, ok := strings.CutPrefix(line, prompt); ok && inBlock {
			commands.WriteString(command)
		} else if inBlock && commands.Len() > 0 {
			want.WriteString(line)
		} else if strings.HasPrefix(line, "#") && commands.Len() > 0 {
			break
		}
	}
	host, port, err := net.SplitHostPort(start(t, settings(t)).addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, cli, "-h", host, "-p", port, "--no-raw")
	cmd.Stdin = strings.NewReader(commands.String())
	got, err := cmd.CombinedOutput()
	if err != nil || string(got) != want.String() || commands.Len() == 0 {
		t.Errorf("%s\ngave, %v,\n%s\nand the README has\n%s", commands.String(), err, got, want.String())
	}
}

// redis-benchmark runs, alone and in pipelines, and gets no error.
func TestRedisBenchmark(t *testing.T) {
	benchmark := tool(t, "redis-benchmark")
	host, port, err := net.SplitHostPort(start(t, settings(t)).addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, what := range []string{
		"-t ping,set,get", "mget key:__rand_int__ key:__rand_int__", "bf.add filter item:__rand_int__", "bf.exists filter item:__rand_int__",
	} {
		for _, pipeline := range []string{"1", "16"} {
			args := append([]string{"-h", host, "-p", port, "-q", "-n", "2000", "-c", "10", "-r", "1000", "-P", pipeline}, strings.Fields(what)...)
			out, err := exec.CommandContext(ctx, benchmark, args...).CombinedOutput()
			if text := string(out); err != nil || !strings.Contains(text, "requests per second") || strings.Contains(text, "rror") || strings.Contains(text, "WARNING") {
				t.Errorf("%s: %v, %s", what, err, text)
			}
		}
	}
}
