// Command firstvisit counts the first visits of each day in the log of a web server. It holds
// IPv4 addresses in bit sets, which are exact and bounded, and IPv6 addresses in a filter. It is
// an example of sketch.Bitset and bloom.Filter.
//
//	go run ./examples/firstvisit                    a million made-up visits, with a map to compare
//	go run ./examples/firstvisit log < access.log   a log in the common format
//
// The first prints
//
//	A map of the 960119 visitors takes 79952832 bytes. 77 first visits by IPv6 were missed.
//	2031-11-21: 1000000 visits, 960042 of them first visits: 835105 by IPv4, in 2717848 bytes, and 124937 by IPv6, in 179728.
//
// The count of IPv4 visitors is exact. The count of first visits by IPv6 is a little too low,
// because the filter takes a few new addresses for known ones.
//
// A hundred million IPv4 addresses take 1.5 GB as text and 400 MB as numbers. As bits they take 537 MB
// at most, however many come, and a filter of 1 % takes 120 MB.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/shaledb/shale/bloom"
)

// A counter counts the visits of a day.
type counter struct {
	day     time.Time
	visits  int
	v4first int
	v6first int
	v4      set
	v6      *bloom.Filter
}

// newCounter returns a counter whose filter has room for the given number of IPv6 visitors a day.
func newCounter(v6 uint64) (*counter, error) {
	f, err := bloom.NewFilter(bloom.FilterOptions{Keys: v6, FPR: 0.001})
	return &counter{v4: make(set), v6: f}, err
}

// visit reports whether this is the first visit of an address on this day. That is exact for
// IPv4. For IPv6 the filter takes a few new addresses for known ones.
func (k *counter) visit(ip netip.Addr) (isNew bool, err error) {
	k.visits++
	if ip.Is4() {
		if isNew, err = k.v4.add(ip.As4()); isNew {
			k.v4first++
		}
		return isNew, err
	}
	key := ip.As16()
	if isNew = !k.v6.CheckAndAdd(key[:]); isNew {
		k.v6first++
	}
	return isNew, nil
}

// report prints the counts of the day.
func (k *counter) report(out io.Writer) {
	fmt.Fprintf(out, "%s: %d visits, %d of them first visits: %d by IPv4, in %d bytes, and %d by IPv6, in %d.\n",
		k.day.Format("2006-01-02"), k.visits, k.v4first+k.v6first, k.v4first, k.v4.bytes(), k.v6first, k.v6.SizeBytes())
}

// parse reads a line of a log, which begins with an address:
//
//	192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326
func parse(line []byte) (ip netip.Addr, day time.Time, err error) {
	host, rest, _ := bytes.Cut(line, []byte(" "))
	if ip, err = netip.ParseAddr(string(host)); err != nil {
		return ip, day, err
	}
	// The user's name is before the date. It can contain neither of the two characters of " [".
	_, stamp, _ := bytes.Cut(rest, []byte(" ["))
	date, _, _ := bytes.Cut(stamp, []byte(":"))
	day, err = time.Parse("02/Jan/2006", string(date))
	return ip.Unmap().WithZone(""), day, err
}

// count counts the visits of a log. The first line of a later day ends the current one. Servers
// write a line when a request ends, so some lines come late: if their day has ended, they are
// left out.
func count(r io.Reader, out io.Writer) error {
	k, err := newCounter(100_000)
	if err != nil {
		return err
	}
	unread := 0
	s := bufio.NewScanner(r)
	for s.Scan() {
		ip, day, err := parse(s.Bytes())
		if err != nil || day.Before(k.day) {
			unread++
			continue
		}
		if day.After(k.day) {
			if k.visits > 0 {
				k.report(out)
			}
			k.v6.Reset()
			k = &counter{day: day, v4: make(set), v6: k.v6}
		}
		if _, err := k.visit(ip); err != nil {
			return err
		}
	}
	k.report(out)
	fmt.Fprintf(out, "%d lines have no address or date, or are from a day that was over already.\n", unread)
	return s.Err()
}

// address returns an address of a crowd of visitors in 6,000 networks, some of which have most
// of them. One in eight is of IPv6.
func address(rng *rand.Rand) netip.Addr {
	network := min(rng.IntN(6000), rng.IntN(6000))
	if rng.IntN(8) == 0 {
		return netip.AddrFrom16([16]byte{0x20, 0x01, byte(network >> 8), byte(network), 15: byte(rng.Uint32()), 14: byte(rng.Uint32())})
	}
	return netip.AddrFrom4([4]byte{byte(network >> 5), byte(network << 3), byte(rng.IntN(8)), byte(rng.Uint32())})
}

// compare counts made-up visits, and compares each answer with a map.
func compare(visits int, out io.Writer) error {
	k, err := newCounter(uint64(visits) / 10)
	if err != nil {
		return err
	}
	k.day = time.Date(2031, 11, 21, 0, 0, 0, 0, time.UTC)
	seen := make(map[netip.Addr]struct{})
	rng, missed := rand.New(rand.NewPCG(1, 2)), 0
	for range visits {
		ip := address(rng)
		isNew, err := k.visit(ip)
		if err != nil {
			return err
		}
		_, was := seen[ip]
		seen[ip] = struct{}{}
		switch {
		case isNew && was, !isNew && !was && ip.Is4():
			return fmt.Errorf("%s: first visit %v, but the map says %v", ip, isNew, !was)
		case !isNew && !was:
			missed++
		}
	}
	both := heap()
	n := len(seen)
	seen = nil
	fmt.Fprintf(out, "A map of the %d visitors takes %d bytes. %d first visits by IPv6 were missed.\n", n, both-heap(), missed)
	k.report(out)
	return nil
}

// heap returns the bytes of all objects on the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func main() {
	var err error
	if len(os.Args) > 1 {
		err = count(os.Stdin, os.Stdout)
	} else {
		err = compare(1_000_000, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}
