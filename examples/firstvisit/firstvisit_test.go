package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// The counts for IPv4 are those of a map: compare checks each answer. Those for IPv6 are too low
// by what the filter predicts, and all of it is much smaller than the map.
func TestCompare(t *testing.T) {
	testenv.SkipRace(t)
	var out strings.Builder
	const n = 100_000
	if err := compare(n, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	var visitors, memory, missed, visits, all, v4, size4, v6, size6 int
	if _, err := fmt.Sscanf(out.String(), "A map of the %d visitors takes %d bytes. %d first visits by IPv6 were missed.\n"+
		"2031-11-21: %d visits, %d of them first visits: %d by IPv4, in %d bytes, and %d by IPv6, in %d.",
		&visitors, &memory, &missed, &visits, &all, &v4, &size4, &v6, &size6); err != nil {
		t.Fatal(err)
	}
	if visits != n || all != v4+v6 || visitors != all+missed || missed > v6/500 {
		t.Errorf("%d visits, %d + %d first ones, %d missed; want %d", visits, v4, v6, missed, visitors)
	}
	if memory < 4*(size4+size6) {
		t.Errorf("the map takes %d bytes, the set %d and the filter %d", memory, size4, size6)
	}
}

// A set of any mixture is that of a map, also past the point where a block's list becomes bits.
func TestSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	s, seen := make(set), make(map[[4]byte]bool)
	for i := range 60_000 {
		ip := [4]byte{byte(rng.IntN(3) * 127), byte(i % 2 * rng.IntN(8)), byte(rng.IntN(64)), byte(rng.Uint32())}
		isNew, err := s.add(ip)
		if err != nil || isNew == seen[ip] {
			t.Fatalf("add(%v) = %v, %v", ip, isNew, err)
		}
		seen[ip] = true
	}
	lists, bits := 0, 0
	for _, b := range s {
		if b.bits != nil {
			bits++
		} else {
			lists++
		}
	}
	if lists == 0 || bits == 0 {
		t.Errorf("%d lists, %d bit sets", lists, bits)
	}
}

func TestCount(t *testing.T) {
	const log = `192.0.2.7 - - [01/Dec/2031:23:59:58 +0000] "GET /[1 HTTP/1.0" 200 2326
::ffff:192.0.2.7 - - [01/Dec/2031:23:59:59 +0000]
2001:db8::1 - "a user" [01/Dec/2031:23:59:59 +0000]
192.0.2.7 - - [02/Dec/2031:00:00:00 +0000]
2001:db8::1 - - [02/Dec/2031:00:00:00 +0000]
192.0.2.8 - - [01/Dec/2031:23:59:58 +0000]
192.0.2.9 - - [no date]
localhost - - [02/Dec/2031:00:00:00 +0000]`
	var out strings.Builder
	if err := count(strings.NewReader(log), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"2031-12-01: 3 visits, 2 of them first visits: 1 by IPv4", "2031-12-02: 2 visits, 2 of them first visits: 1 by IPv4", "3 lines have no address or date"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("%s, want %s", lines[i], want)
		}
	}
}

func TestParse(t *testing.T) {
	ip, day, err := parse([]byte(`2001:db8::7 - "a user" [10/Oct/2000:13:55:36 -0700] "GET /[1 HTTP/1.0" 200 2326`))
	if err != nil || ip != netip.MustParseAddr("2001:db8::7") || !day.Equal(time.Date(2000, 10, 10, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v, %v", ip, day, err)
	}
	for _, line := range []string{"", "-", "1.2.3", "1.2.3.4", "1.2.3.4 -", "1.2.3.4 - - [", "1.2.3.4 - - [10/Okt/2000:1"} {
		if ip, day, err := parse([]byte(line)); err == nil {
			t.Errorf("parse(%q) = %v, %v", line, ip, day)
		}
	}
}
