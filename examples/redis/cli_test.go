package main

import (
	"os"
	"testing"

	"github.com/shaledb/shale/internal/resp/resptest"
)

// The session of the README is what redis-cli shows.
func TestREADME_Session(t *testing.T) {
	cli := resptest.Tool(t, "redis-cli")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	resptest.ShowsSession(t, cli, start(t, settings(t)).addr, string(readme), "127.0.0.1:6380> ")
}

// redis-benchmark runs, alone and in pipelines, and gets no error.
func TestRedisBenchmark(t *testing.T) {
	tool := resptest.Tool(t, "redis-benchmark")
	resptest.Benchmark(t, tool, start(t, settings(t)).addr, "2000",
		"-t ping,set,get", "mget key:__rand_int__ key:__rand_int__", "bf.add filter item:__rand_int__", "bf.exists filter item:__rand_int__")
}
