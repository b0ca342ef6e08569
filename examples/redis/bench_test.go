package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// onDisk returns a client of a server on disk.
func onDisk(b *testing.B) *client {
	c := settings(b, "-dir", filepath.Join(b.TempDir(), "db"), "-sync", "no")
	c.fs = nil
	return direct(b, c)
}

// What it costs to keep a filter: a million items at 1 %, one a command, or a hundred. log-B
// are the bytes of the store's log for each item, dumps among them.
func BenchmarkAdd(b *testing.B) {
	item := func(buf []byte, i int) []byte { return strconv.AppendInt(append(buf[:0], "item:"...), int64(i), 10) }
	b.Run("memory", func(b *testing.B) {
		f, err := redisbloom.New(1_000_000, 0.01)
		if err != nil {
			b.Fatal(err)
		}
		var buf []byte
		for i := range b.N {
			buf = item(buf, i)
			if err := f.Add(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, each := range []int{1, 100} {
		b.Run(fmt.Sprintf("server/items=%d", each), func(b *testing.B) {
			c := onDisk(b)
			c.want(b, "BF.RESERVE f 0.01 1000000", "+OK")
			args := append([][]byte{[]byte("BF.MADD"), []byte("f")}, make([][]byte, each)...)
			for i := 0; b.Loop(); i++ {
				n := i % each
				args[2+n] = item(args[2+n], i)
				if n == each-1 {
					c.Out = c.Out[:0]
					c.do(args)
				}
			}
			b.ReportMetric(float64(c.s.db.Metrics().WALBytes)/float64(b.N), "log-B/op")
			b.ReportMetric(float64(c.s.filters.get([]byte("f")).gen), "saves")
		})
	}
	b.Run("set", func(b *testing.B) {
		c := onDisk(b)
		args := [][]byte{[]byte("SET"), nil, []byte("x")}
		for i := 0; b.Loop(); i++ {
			args[1] = item(args[1], i)
			c.Out = c.Out[:0]
			c.do(args)
		}
		b.ReportMetric(float64(c.s.db.Metrics().WALBytes)/float64(b.N), "log-B/op")
	})
}

// How long a start takes with a filter of a million items at 1 %.
func BenchmarkStart(b *testing.B) {
	cfg := settings(b, "-dir", filepath.Join(b.TempDir(), "db"), "-sync", "no")
	cfg.fs = nil
	s, err := openServer(cfg, b.Logf)
	if err != nil {
		b.Fatal(err)
	}
	c := s.newClient()
	c.want(b, "BF.RESERVE f 0.01 1000000", "+OK")
	for i := range 1_000_000 {
		if i%100 == 0 {
			c.Out = c.Out[:0]
		}
		c.do([][]byte{[]byte("BF.ADD"), []byte("f"), []byte(strconv.Itoa(i))})
	}
	b.ReportMetric(float64(s.filters.get([]byte("f")).slots), "records")
	if err := s.close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if s, err = openServer(cfg, b.Logf); err != nil {
			b.Fatal(err)
		}
		if err := s.close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.filters.get([]byte("f")).slots), "records")
}

// How long the changes of a filter wait while it is saved whole, by the items that it is for.
func BenchmarkSave(b *testing.B) {
	for _, items := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			c := onDisk(b)
			c.want(b, fmt.Sprintf("BF.RESERVE f 0.01 %d", items), "+OK")
			f := c.s.filters.get([]byte("f"))
			for i := range items {
				if err := f.bf.Add(strconv.AppendInt(nil, int64(i), 10)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := c.s.saveFilter(f, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(f.shape.bytes))
		})
	}
}
