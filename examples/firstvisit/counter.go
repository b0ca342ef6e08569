package main

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"time"

	"github.com/shaledb/shale/bloom"
)

// A counter counts the visits of a day, and sums over all days. IPv4 addresses are
// counted in a set, which is exact. IPv6 addresses are counted with a filter, which takes
// a few new ones for known ones.
type counter struct {
	config
	out io.Writer

	day     time.Time // the current day; zero: the log has shown no date
	visits  int       // of the day, as are all fields up to missed
	v4      set
	v6      *bloom.Filter
	v6first int
	seen    map[netip.Addr]struct{} // all visitors; only with -check
	missed  int                     // first visits that v6 did not notice; only with -check

	// Of all days: lines, lines without an address, and lines of a day that had ended.
	lines, invalid, late int
	visitors, size       int // first visits of all days; bytes of the largest day
}

// newCounter returns a counter that prints its reports to out.
func newCounter(c config, out io.Writer) (*counter, error) {
	f, err := bloom.NewFilter(bloom.FilterOptions{Keys: c.ipv6, FPR: c.fpr})
	if err != nil {
		return nil, err
	}
	k := &counter{config: c, out: out, v6: f}
	k.reset()
	return k, nil
}

// reset removes the visitors of the day.
func (k *counter) reset() {
	k.visits, k.v6first, k.missed = 0, 0, 0
	k.v4 = set{}
	k.v6.Reset()
	if k.check {
		k.seen = make(map[netip.Addr]struct{})
	}
}

// line counts a line of the log. The first line of a later day ends the current one.
// Servers write a line when a request ends, so some lines come late. If their day has
// ended, only their number is counted.
func (k *counter) line(line []byte) error {
	k.lines++
	ip, day, ok := parse(line)
	if !ok {
		k.invalid++
		return nil
	}
	if !day.IsZero() {
		switch c := day.Compare(k.day); {
		case c < 0:
			k.late++
			return nil
		case c > 0:
			k.endDay()
			k.day = day
		}
	}
	k.visits++
	isNew, err := k.visit(ip)
	if err == nil && isNew && k.first {
		_, err = fmt.Fprintln(k.out, ip)
	}
	return err
}

// visit reports whether this is the first visit of the address on this day. That is exact
// for IPv4. For IPv6 the filter takes a few new addresses for known ones.
func (k *counter) visit(ip netip.Addr) (isNew bool, err error) {
	if ip.Is4() {
		isNew, err = k.v4.add(ip.As4())
	} else {
		key := ip.As16()
		if isNew = !k.v6.CheckAndAdd(key[:]); isNew {
			k.v6first++
		}
	}
	if k.check && err == nil {
		_, was := k.seen[ip]
		if !was {
			k.seen[ip] = struct{}{}
		}
		switch {
		case isNew && was, !isNew && !was && ip.Is4():
			err = fmt.Errorf("%s: first visit %v, but the map says %v", ip, isNew, !was)
		case !isNew && !was:
			k.missed++
		}
	}
	return isNew, err
}

// parse reads a line. It has only an address, or an address and the rest of the common log
// format, from which parse takes the day:
//
//	192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326
func parse(line []byte) (ip netip.Addr, day time.Time, ok bool) {
	line = bytes.TrimSpace(line)
	host, rest, logged := bytes.Cut(line, []byte(" "))
	ip, err := netip.ParseAddr(string(host))
	if err != nil {
		return ip, day, false
	}
	if logged {
		// The user's name precedes the date. It can contain neither of the two
		// characters of " [".
		_, stamp, _ := bytes.Cut(rest, []byte(" ["))
		date, _, _ := bytes.Cut(stamp, []byte(":"))
		if day, err = time.Parse("02/Jan/2006", string(date)); err != nil {
			return ip, day, false
		}
	}
	return ip.Unmap().WithZone(""), day, true
}

// endDay reports the day, and resets the counter for the next one.
func (k *counter) endDay() {
	if k.visits == 0 {
		return
	}
	name := "All"
	if !k.day.IsZero() {
		name = k.day.Format("2006-01-02")
	}
	if k.list {
		for ip := range k.v4.all() {
			fmt.Fprintln(k.out, ip)
		}
	}
	v4, size4, size6 := int(k.v4.count), k.v4.bytes(), k.v6.SizeBytes()
	fmt.Fprintf(k.out, "%s: %d visits, %d of them first visits: %d by IPv4 in about %d bytes, %d by IPv6 in %d, about %.1f missed.\n",
		name, k.visits, v4+k.v6first, v4, size4, k.v6first, size6, missed(k.v6))
	k.visitors += v4 + k.v6first
	k.size = max(k.size, size4+size6)
	if !k.check {
		k.reset()
		return
	}
	// The heap shrinks by what each of them has taken.
	visitors, missed := len(k.seen), k.missed
	both := heap()
	k.seen = nil
	alone := heap()
	k.v4 = set{}
	none := heap()
	fmt.Fprintf(k.out, "A map of the %d visitors takes %d bytes; the set takes %d, and %d with the filter. First visits missed: %d of %d.\n",
		visitors, both-alone, alone-none, alone-none+uint64(size6), missed, k.v6first+missed)
	k.reset()
}

// missed returns how many first visits a filter is expected to have missed while it was
// filled. For the k-th key, it has the rate of false positives of k - 1 keys.
func missed(f *bloom.Filter) (sum float64) {
	n, step := f.EstimatedCount(), max(1, f.EstimatedCount()/1000)
	for at := step / 2; at < n; at += step {
		sum += step * bloom.SizeFPR(f.Cap(), f.K(), uint64(at))
	}
	return sum
}

// summary prints the sums over all days.
func (k *counter) summary() {
	if k.invalid+k.late > 0 {
		fmt.Fprintf(k.out, "%d lines have no address or date, and %d are from a day that was over already.\n", k.invalid, k.late)
	}
	const each = 24 // of a netip.Addr
	fmt.Fprintf(k.out, "Bit sets and filter held the %d visitors of %d lines in at most %d bytes a day. They never take more than %d MiB; a map takes more than that before it has %d million addresses.\n",
		k.visitors, k.lines, k.size, 512+k.v6.SizeBytes()>>20, (512<<20+k.v6.SizeBytes())/each/1_000_000)
}

// heap returns the bytes of all objects on the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
