package server

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// BenchmarkFilter adds to filters of 100,000 items, and asks for items that are not there, alone and in pipelines of 16.
func BenchmarkFilter(b *testing.B) {
	for _, first := range []int{100_000, 100} {
		s, f := setup(b)
		c := s.newClient()
		c.say("BF.RESERVE", "f", "0.01", strconv.Itoa(first))
		items := 0
		add := func(n int) (p []resp.Command) {
			for range n {
				p = append(p, pipelineOf(bytesOf("BF.ADD", "f", strconv.Itoa(items)))...)
				items++
			}
			return p
		}
		do := func(p []resp.Command) {
			for c.Out = c.Out[:0]; len(p) > 0; {
				p = p[c.run(p):]
			}
		}
		for items < 100_000 {
			do(add(1000))
		}
		if err := f.db.Compact(b.Context(), shale.Range{}); err != nil {
			b.Fatal(err)
		}
		for _, size := range []int{1, 16} {
			b.Run(fmt.Sprintf("capacity=%d/pipeline=%d/op=add", first, size), func(b *testing.B) {
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if n%size == 0 {
						do(add(size))
					}
				}
			})
			b.Run(fmt.Sprintf("capacity=%d/pipeline=%d/op=ask", first, size), func(b *testing.B) {
				b.ReportAllocs()
				var p []resp.Command
				for i := range size {
					p = append(p, pipelineOf(bytesOf("BF.EXISTS", "f", fmt.Sprint("absent ", i)))...)
				}
				for n := 0; b.Loop(); n++ {
					if n%size == 0 {
						do(p)
					}
				}
			})
		}
	}
}

// BenchmarkFilter_Clients has 50 clients that add to one filter.
func BenchmarkFilter_Clients(b *testing.B) {
	s, _ := setup(b)
	s.newClient().say("BF.RESERVE", "f", "0.01", "10000000")
	var last atomic.Int64
	b.SetParallelism(25) // for each of 2 processors
	b.RunParallel(func(pb *testing.PB) {
		c := s.newClient()
		for pb.Next() {
			c.say("BF.ADD", "f", strconv.FormatInt(last.Add(1), 10))
		}
	})
}
