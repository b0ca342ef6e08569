package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// The counts of a made-up log are those of a map, but for the false positives, and the
// comment of the command shows what it prints.
func TestRun_Generated(t *testing.T) {
	testenv.SkipRace(t)
	c, err := parseFlags([]string{"-generate", "48", "-check"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), c, nil, &out); err != nil {
		t.Fatal(err)
	}
	hours, most, sizes := 0, 0, [2]int{}
	for line := range strings.Lines(out.String()) {
		var day, hour string
		var visits, n, exact int
		if _, err := fmt.Sscanf(line, "%s %s %d visits; %d visitors in 24 hours; by the map %d", &day, &hour, &visits, &n, &exact); err == nil {
			hours++
			most = max(most, exact)
			if n > exact || float64(n) < float64(exact)*(1-c.fpr) || visits == 0 {
				t.Errorf("%d visitors, by the map %d", n, exact)
			}
		}
		fmt.Sscanf(line, "The window took %d bytes", &sizes[0])
		fmt.Sscanf(line, "The map took %d bytes", &sizes[1])
	}
	if hours != 48 || most < 50_000 || sizes[0] == 0 || sizes[1] < 10*sizes[0] {
		t.Errorf("%d hours, %d visitors, %d bytes and %d of the map", hours, most, sizes[0], sizes[1])
	}
	b, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "//\t2031-11-22 "); ok {
			shown++
			if !strings.Contains(out.String(), text) {
				t.Errorf("the comment shows, but the command does not print: %s", text)
			}
		}
	}
	if shown != 2 {
		t.Errorf("%d counts in the comment", shown)
	}
}

// Visits of different hours, late ones, pauses and lines that are none.
func TestRun_Log(t *testing.T) {
	for _, tt := range []struct{ name, log, want string }{
		{"a day", "2031-11-21T08:17:00Z anna\n2031-11-21T08:18:00Z bert\n2031-11-21T09:00:00+01:00 late\n2031-11-21T09:00:00Z anna\n",
			`2031-11-21 09:00: 3 visits; 3 visitors in 24 hours; by the map 3 (+0.00 %)
2031-11-21 09:00: 1 visits; 3 visitors in 24 hours; by the map 3 (+0.00 %)
4 lines, 0 without a time or a visitor, 1 earlier than the line before.
`},
		{"seconds", "1952929021 anna b\n1952929022  anna b\r\n1952929023 anna\n",
			"2031-11-20 08:17: 3 visits; 2 visitors in 24 hours; by the map 2 (+0.00 %)\n3 lines"},
		{"nothing", "\nanna\n2031-11-21 anna\n2031-11-21T08:17:00Z\n-1 anna\n99999999999 anna\n", "No line of 6 has a time and a visitor.\n"},
	} {
		var out strings.Builder
		if err := run(t.Context(), config{hourly: 10, fpr: 1e-9, check: true}, strings.NewReader(tt.log), &out); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, out.String(), tt.want)
		}
	}
}

// A visitor counts for 24 hours, and a pause does not report each hour of a year.
func TestRun_Pause(t *testing.T) {
	var out strings.Builder
	log := "2031-11-21T08:17:00Z anna\n2031-11-21T20:17:00Z bert\n2032-11-21T08:17:00Z carl\n"
	if err := run(t.Context(), config{hourly: 10, fpr: 1e-9, check: true}, strings.NewReader(log), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 38 || len(lines) > 42 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, line := range lines[:37] {
		want := "1 visitors in 24 hours; by the map 1 "
		if i >= 12 && i < 24 {
			want = "2 visitors in 24 hours; by the map 2 "
		}
		if !strings.Contains(line, want) {
			t.Errorf("hour %d: %s, want %s", i, line, want)
		}
	}
}

// An hour is reported before the next line comes, and an interrupt ends the wait for it.
func TestRun_Interrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	logR, logW := io.Pipe()
	outR, outW := io.Pipe()
	defer logW.Close()
	defer time.AfterFunc(time.Minute, func() {
		t.Error("it waits for the next line")
		logW.Close()
		outR.Close()
	}).Stop()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, config{hourly: 10, fpr: 0.01}, logR, outW)
		ended <- errors.Join(err, outW.Close())
	}()
	if _, err := io.WriteString(logW, "2031-11-21T08:17:00Z anna\n2031-11-21T09:17:00Z bert\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(outR)
	if line, err := r.ReadString('\n'); err != nil || line != "2031-11-21 09:00: 1 visits; 1 visitors in 24 hours\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	rest, err := io.ReadAll(r)
	if err := errors.Join(err, <-ended); err != nil || !strings.Contains(string(rest), "2 visitors in 24 hours\n2 lines") {
		t.Errorf("%v\n%s", err, rest)
	}
}

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"-hourly", "5", "-fpr", "0.1", "-check", "-generate", "3", "-seed", "2"}, io.Discard)
	if want := (config{hourly: 5, fpr: 0.1, check: true, generate: 3, seed: 2}); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	for _, args := range [][]string{{"log"}, {"-hourly", "0"}, {"-hourly", "9999999999"}, {"-fpr", "0"}, {"-fpr", "NaN"}, {"-generate", "-1"}, {"-nonsense"}} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
