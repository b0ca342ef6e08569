package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// realRequests are URLs of hacked pages, with all that strangers put into requests;
// without them the test is skipped.
func realRequests(t testing.TB) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(string(testenv.ReadShared(t, "data/malicious-urls.txt"))), "\n")
}

func madeRequests(testing.TB) []string { return []string{"/", "/a b", `/"[x]`, "/1.2.3.4"} }

// address returns one address of a crowd. A few networks have most of the visitors, and
// some visitors come often. One in eight has an IPv6 address.
func address(rng *rand.Rand) netip.Addr {
	network := uint64(math.Exp(rng.Float64() * 7)) // up to 1100, the low ones more often
	visitor := uint64(math.Exp(rng.Float64() * 11))
	if rng.IntN(8) == 0 {
		return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(network >> 8), byte(network), 14: byte(visitor >> 8), 15: byte(visitor)})
	}
	return netip.AddrFrom4([4]byte{byte(network*37>>8)%223 + 1, byte(network * 37), byte(visitor >> 8), byte(visitor)})
}

// A log of three days with real requests: the counts for IPv4 are those of a map, and those
// for IPv6 are too low by what the filter predicts.
func TestRun(t *testing.T) {
	for name, requests := range map[string]func(testing.TB) []string{"real": realRequests, "made": madeRequests} {
		t.Run(name, func(t *testing.T) {
			urls := requests(t)
			rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
			const days = 3
			visits := 60_000
			if testing.Short() || testenv.Race {
				visits /= 6
			}
			var log, want bytes.Buffer
			var first [days][2]int
			for day := range days {
				seen := make(map[netip.Addr]bool)
				var v4 []netip.Addr
				for i := range visits {
					ip := address(rng)
					if !seen[ip] {
						seen[ip] = true
						if ip.Is4() {
							v4 = append(v4, ip)
							first[day][0]++
						} else {
							first[day][1]++
						}
					}
					fmt.Fprintf(&log, "%s - frank [%02d/Nov/2031:%02d:00:00 +0000] \"GET %s HTTP/1.1\" 200 %d\n", ip, 21+day, 24*i/visits, urls[i%len(urls)], i)
				}
				slices.SortFunc(v4, netip.Addr.Compare)
				for _, ip := range v4 {
					fmt.Fprintln(&want, ip)
				}
			}
			// The filter is small, so that it misses enough visits to be measured.
			c := config{list: true, check: true, ipv6: uint64(first[0][1]), fpr: 0.2}
			var out bytes.Buffer
			if err := run(t.Context(), c, &log, &out); err != nil {
				t.Fatal(err)
			}
			var list, report []string
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, " ") {
					report = append(report, line)
				} else {
					list = append(list, line)
				}
			}
			t.Logf("%s", strings.Join(report, ""))
			if strings.Join(list, "") != want.String() {
				t.Errorf("%d visitors are listed, want %d", len(list), strings.Count(want.String(), "\n"))
			}
			if len(report) != 2*days+1 {
				t.Fatalf("%d lines of report", len(report))
			}
			for day := range days {
				var n, all, v4, about, v6, size, visitors, memory, set, both, m int
				var mean float64
				_, err := fmt.Sscanf(report[2*day], fmt.Sprintf("2031-11-%d: %%d visits, %%d of them first visits: %%d by IPv4 in about %%d bytes, %%d by IPv6 in %%d, about %%f missed", 21+day), &n, &all, &v4, &about, &v6, &size, &mean)
				_, err2 := fmt.Sscanf(report[2*day+1], "A map of the %d visitors takes %d bytes; the set takes %d, and %d with the filter. First visits missed: %d of", &visitors, &memory, &set, &both, &m)
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				if n != visits || v4 != first[day][0] || v6+m != first[day][1] || all != v4+v6 || visitors != v4+v6+m {
					t.Errorf("day %d: %d visits, %d + %d first ones, want %d, %v", day, n, v4, v6, visits, first[day])
				}
				if memory < 3*both || about < set/2 || about > 2*set {
					t.Errorf("day %d: map %d bytes, set %d (told: %d), with the filter %d", day, memory, set, about, both)
				}
				if most := 0.2 * float64(first[day][1]); mean > most || math.Abs(float64(m)-mean) > 5*math.Sqrt(mean) {
					t.Errorf("day %d: %d first visits are missed, told were %.1f, and should be less than %.0f", day, m, mean, most)
				}
			}
		})
	}
}

// A set of any mixture is that of a map, also past the point where a block's list
// becomes bits, and is listed in order.
func TestSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	var s set
	seen := make(map[netip.Addr]bool)
	for i := range 60_000 {
		ip := [4]byte{byte(rng.IntN(3) * 127), byte(i % 2 * rng.IntN(8)), byte(rng.IntN(64)), byte(rng.Uint32())}
		isNew, err := s.add(ip)
		if err != nil || isNew == seen[netip.AddrFrom4(ip)] {
			t.Fatalf("add(%v) = %v, %v", ip, isNew, err)
		}
		seen[netip.AddrFrom4(ip)] = true
	}
	lists, bits := 0, 0
	for _, b := range s.blocks {
		if b.bits != nil {
			bits++
		} else {
			lists++
		}
	}
	if lists == 0 || bits == 0 || s.count != uint64(len(seen)) {
		t.Errorf("%d lists, %d bit sets; %d addresses, want %d", lists, bits, s.count, len(seen))
	}
	all := slices.Collect(s.all())
	if len(all) != len(seen) || !slices.IsSortedFunc(all, netip.Addr.Compare) {
		t.Errorf("%d addresses are listed, in order %v; want %d", len(all), slices.IsSortedFunc(all, netip.Addr.Compare), len(seen))
	}
	for ip := range s.all() {
		if !seen[ip] {
			t.Errorf("%v was not added", ip)
		}
		if ip.As4()[2] == 40 {
			break
		}
	}
}

func TestRun_Days(t *testing.T) {
	for _, tt := range []struct {
		name, log, want string
		c               config
	}{
		{"addresses", "192.0.2.7\n 192.0.2.3\r\n192.0.2.7\n::ffff:192.0.2.3\n2001:db8::1\nfe80::1%eth0\nfe80::1\n\nlocalhost\n",
			"192.0.2.7\n192.0.2.3\n2001:db8::1\nfe80::1\n192.0.2.3\n192.0.2.7\nAll: 7 visits, 4 of them first visits: 2 by IPv4 in about", config{first: true, list: true}},
		{"late", "192.0.2.7 - - [01/Dec/2031:23:59:59 +0000]\n192.0.2.7 - - [02/Dec/2031:00:00:00 +0000]\n192.0.2.8 - - [01/Dec/2031:23:59:58 +0000]\n",
			"192.0.2.7\n192.0.2.7\n", config{first: true}},
		{"no date", "192.0.2.7 - - [no date]\n192.0.2.7 - -\n", "2 lines have no address or date, and 0 are from a day that was over already.\n", config{}},
		{"nothing", "", "Bit sets and filter held the 0 visitors of 0 lines", config{}},
	} {
		tt.c.ipv6, tt.c.fpr = 1000, 1e-9
		var out bytes.Buffer
		if err := run(t.Context(), tt.c, strings.NewReader(tt.log), &out); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for line := range strings.Lines(out.String()) {
			if tt.name != "late" || !strings.Contains(line, ": 1 visits, 1 of them") {
				got.WriteString(line)
			}
		}
		if !strings.HasPrefix(got.String(), tt.want) || tt.name == "late" && !strings.Contains(out.String(), "1 are from a day that was over already") {
			t.Errorf("%s: %s\nwant %s", tt.name, out.String(), tt.want)
		}
	}
}

// A first visit is printed before the next line comes, and an interrupt ends the
// wait for that line.
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
		err := run(ctx, config{first: true, ipv6: 10, fpr: 0.01}, logR, outW)
		ended <- errors.Join(err, outW.Close())
	}()
	if _, err := io.WriteString(logW, "192.0.2.7\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if _, err := io.ReadFull(outR, buf); err != nil || string(buf) != "192.0.2.7\n" {
		t.Fatalf("%q, %v", buf, err)
	}
	cancel()
	rest, err := io.ReadAll(outR)
	if err := errors.Join(err, <-ended); err != nil || !strings.Contains(string(rest), "All: 1 visits") {
		t.Errorf("%v\n%s", err, rest)
	}
}

func TestParse(t *testing.T) {
	ip, day, ok := parse([]byte(`2001:db8::7 - "a user" [10/Oct/2000:13:55:36 -0700] "GET /[1 HTTP/1.0" 200 2326`))
	if !ok || ip != netip.MustParseAddr("2001:db8::7") || !day.Equal(time.Date(2000, 10, 10, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v, %v", ip, day, ok)
	}
	for _, line := range []string{"", "-", "1.2.3", "1.2.3.4 -", "1.2.3.4 - - [", "1.2.3.4 - - [10/Okt/2000:1"} {
		if ip, day, ok := parse([]byte(line)); ok {
			t.Errorf("parse(%q) = %v, %v", line, ip, day)
		}
	}
}

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"-list", "-ipv6", "5", "-fpr", "0.1"}, io.Discard)
	if err != nil || !c.list || c.ipv6 != 5 || c.fpr != 0.1 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, args := range [][]string{{"log"}, {"-ipv6", "0"}, {"-ipv6", "9999999999"}, {"-fpr", "0"}, {"-fpr", "NaN"}, {"-fpr", "1"}, {"-nonsense"}} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
