package program

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/shaledb/shale/remote/internal/cost"
)

// The command cost says what a store in a bucket costs a month. It asks no bucket: package cost computes it.

// usual is the store whose cost is computed if no option says otherwise. Its options are the defaults of remote and shale, and
// its rate of false positives is that of 16 bits a key, the default with LocalBytes, as remote/s3/internal/figures has measured it.
var usual = cost.Use{
	Bytes: 1e12, Writes: 1000, Key: 32, Value: 100, Compressed: 1, Absent: 100_000, Present: 100, FalsePositives: 0.0008,
	LocalBytes: 50e9, Memtable: 32 << 20, Table: 16 << 20,
	Ship: time.Second, Publish: time.Minute, Flush: 15 * time.Minute, Retain: 24 * time.Hour,
}

// listPrices are those of listPricesOf, without what leaves the region: a store next to its bucket pays nothing for that.
var listPrices = cost.Prices{Put: 0.005, Get: 0.0004, Stored: 0.023}

const listPricesOf = "Amazon S3 Standard in us-east-1, as listed in March 2026"

// monthlyCost prints what a month costs, for each reason.
func monthlyCost(c *call) (int, error) {
	u, p := usual, listPrices
	if err := c.costOptions(&u, &p); err != nil {
		return failed, err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "in 30 days\t\t$\t")
	sum := 0.0
	type line struct{ amount, kind, price, name, how string }
	var lines []line
	for _, r := range u.Rows() {
		amount, price := p.Month(r)
		sum += price
		unit, text := r.Kind.String(), humanize.Comma(int64(amount+0.5))
		if r.Kind == cost.Stored || r.Kind == cost.Out {
			unit = "GB " + unit
		}
		lines = append(lines, line{text, unit, money(price), r.Name, r.How})
	}
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t  %s: %s\n", l.amount, l.kind, l.price, l.name, l.how)
	}
	fmt.Fprintf(w, "\t\t%s\t  in all\n", money(sum))
	if err := w.Flush(); err != nil {
		return failed, err
	}
	of := "as given"
	if p == listPrices {
		of = listPricesOf
	}
	fmt.Fprintf(c.out, "Prices: $%g for 1,000 PUT or LIST, $%g for 1,000 GET or HEAD, $%g for a GB-month, $%g for a GB out; %s.\n", p.Put, p.Get, p.Stored, p.Out, of)
	return found, nil
}

// money formats dollars.
func money(n float64) string { return humanize.FormatFloat("#,###.##", n) }

// costOptions sets what options say.
func (c *call) costOptions(u *cost.Use, p *cost.Prices) error {
	for name, field := range map[string]*float64{
		"store": &u.Bytes, "key": &u.Key, "value": &u.Value, "local": &u.LocalBytes, "memtable": &u.Memtable, "table": &u.Table,
	} {
		if err := c.size(name, field); err != nil {
			return err
		}
	}
	for name, field := range map[string]*float64{
		"writes": &u.Writes, "compressed": &u.Compressed, "absent": &u.Absent, "present": &u.Present, "hits": &u.Hits, "fpr": &u.FalsePositives,
		"readers": &u.Readers, "put-price": &p.Put, "get-price": &p.Get, "stored-price": &p.Stored, "out-price": &p.Out,
	} {
		if err := c.number(name, field); err != nil {
			return err
		}
	}
	for name, field := range map[string]*time.Duration{"every": &u.Ship, "publish": &u.Publish, "flush": &u.Flush, "retain": &u.Retain} {
		if err := c.duration(name, field); err != nil {
			return err
		}
	}
	switch {
	case u.Memtable < 1 || u.Table < 1 || u.Bytes < 1:
		return fmt.Errorf("--store, --memtable and --table are sizes of at least a byte")
	case u.Hits > 1 || u.FalsePositives > 1:
		return fmt.Errorf("--hits and --fpr are parts, from 0 to 1")
	}
	return nil
}

// size parses the argument of an option that was given: a number of bytes.
func (c *call) size(option string, to *float64) error {
	if !c.has(option) {
		return nil
	}
	n, err := humanize.ParseBytes(c.option(option))
	if err != nil || n > 1<<60 {
		return fmt.Errorf("--%s %s is not a size: write 100, 64KiB, 200MB or 1TB", option, c.option(option))
	}
	*to = float64(n)
	return nil
}

// number parses the argument of an option that was given: a number that is not negative.
func (c *call) number(option string, to *float64) error {
	if !c.has(option) {
		return nil
	}
	n, err := strconv.ParseFloat(c.option(option), 64)
	if err != nil || !(n >= 0 && n <= 1e15) {
		return fmt.Errorf("--%s %s is not a number like 1000 or 0.02", option, c.option(option))
	}
	*to = n
	return nil
}
