package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

func mustOpen(t *testing.T, dir string, limit int) *index {
	t.Helper()
	x, err := openIndex(dir, limit, shale.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Every verdict is that of a map with the same limit, also after the index is opened again.
func TestSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	dir := t.TempDir()
	const limit = 20
	names := make(map[string]bool)
	second := int64(100)
	var seen [3]int
	for range 4 {
		x := mustOpen(t, dir, limit)
		second++ // the count of a second ends with the program
		fresh := 0
		for range 2000 {
			if rng.IntN(50) == 0 {
				second, fresh = second+1+rng.Int64N(3), 0
			}
			late := int64(0)
			if fresh > 0 { // the index has met this second
				late = rng.Int64N(5)
			}
			name, want := fmt.Sprint("name", rng.IntN(2000)), known
			switch {
			case names[name]:
			case fresh == limit:
				want = refused
			default:
				want = added
				names[name] = true
				fresh++
			}
			if got, err := x.sample(name, second-late); got != want || err != nil {
				t.Fatalf("%s in second %d: %v, %v; want %v", name, second, got, err, want)
			}
			seen[want]++
		}
		if err := x.close(); err != nil {
			t.Fatal(err)
		}
	}
	if seen[known] == 0 || seen[added] == 0 || seen[refused] == 0 {
		t.Errorf("known, added and refused: %d", seen)
	}
}

// Of goroutines with the same new names, one adds each of them.
func TestSample_Concurrent(t *testing.T) {
	x := mustOpen(t, t.TempDir(), 0)
	const n = 300
	var first atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range n {
				v, err := x.sample(fmt.Sprint("name", i), 1)
				if err != nil || v == refused {
					t.Errorf("%v, %v", v, err)
				}
				if v == added {
					first.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if first.Load() != n {
		t.Errorf("%d names added, want %d", first.Load(), n)
	}
	if err := x.close(); err != nil {
		t.Error(err)
	}
}

// Filters save nearly all searches for new names, and change no verdict.
func TestTakeTraffic(t *testing.T) {
	c := config{names: 20_000, samples: 30_000, limit: 200}
	if testing.Short() || testenv.Race {
		c.names, c.samples, c.limit = 2000, 3000, 20
	}
	without, err := takeTraffic(t.Context(), c, t.TempDir(), -1)
	if err != nil {
		t.Fatal(err)
	}
	with, err := takeTraffic(t.Context(), c, t.TempDir(), 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("without %+v, with %+v", without, with)
	if without.tally != with.tally || with.samples != c.samples || with.known+with.added+with.refused != c.samples {
		t.Errorf("without filters %+v, with them %+v", without.tally, with.tally)
	}
	// At least half of the flood is over the limit, and nothing of the calm seconds.
	if flood := floodEnds - floodBegins; with.refused < c.samples/seconds*flood/2 || with.added < c.limit*flood {
		t.Errorf("%+v", with.tally)
	}
	if absent := with.added + with.refused; without.blocks < uint64(absent)*9/10 || with.blocks > uint64(absent)/40 {
		t.Errorf("%d names absent; %d searches without filters, %d with them", absent, without.blocks, with.blocks)
	}
}

func TestRun(t *testing.T) {
	c := config{db: filepath.Join(t.TempDir(), "db"), limit: 2}
	samples := "cpu.load 0.7 10\ncpu.load 0.8 11\nnot a sample at all\ncpu.temp 41 11\n\na b c\ncpu.fan 1 11\ncpu.volts 1 11\n"
	for _, want := range []string{
		"new cpu.load\nnew cpu.temp\nnew cpu.fan\n8 samples: 1 of known names, 3 of new ones, 1 refused, 3 not understood.\n",
		"new cpu.volts\n8 samples: 4 of known names, 1 of new ones, 0 refused, 3 not understood.\n",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), c, strings.NewReader(samples), &out); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%v\n%s\nwant %s", err, out.String(), want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), config{names: 500, samples: 600, limit: 5}, nil, &out); err != nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestParseSample(t *testing.T) {
	for _, tt := range []struct {
		line, name string
		second     int64
		ok         bool
	}{
		{"a.b 1 2", "a.b", 2, true}, {" a{b=\"c\"}  -1.5e9\t1952929021 ", "a{b=\"c\"}", 1952929021, true}, {"a NaN 1", "a", 1, true},
		{"", "", 0, false}, {"a 1", "", 0, false}, {"a 1 2 3", "", 0, false}, {"a b 2", "", 0, false}, {"a 1 2.5", "a", 0, false},
		{strings.Repeat("a", maxName+1) + " 1 2", "", 0, false},
	} {
		name, second, ok := parseSample(tt.line)
		if ok != tt.ok || ok && (name != tt.name || second != tt.second) {
			t.Errorf("parseSample(%.40q) = %q, %d, %v; want %q, %d, %v", tt.line, name, second, ok, tt.name, tt.second, tt.ok)
		}
	}
}

// An interrupt ends the wait for samples, and the summary is printed.
func TestRun_Interrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	defer time.AfterFunc(time.Minute, func() {
		t.Error("it waits for the next sample")
		w.Close()
	}).Stop()
	go func() {
		_, _ = io.WriteString(w, "a 1 2\n")
		cancel()
	}()
	var out bytes.Buffer
	if err := run(ctx, config{db: t.TempDir()}, r, &out); err != nil || !strings.Contains(out.String(), "not understood") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := run(ctx, config{names: 500, samples: 600}, nil, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("made-up traffic after an interrupt: %v", err)
	}
}

func TestParseFlags(t *testing.T) {
	if c, err := parseFlags([]string{"-db", "d", "-limit", "7"}, io.Discard); err != nil || c.db != "d" || c.limit != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, args := range [][]string{{"more"}, {"-limit", "-1"}, {"-names", "0"}, {"-samples", "29"}, {"-nonsense"}} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
