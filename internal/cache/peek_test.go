package cache

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// If a Peek is valid afterwards, its bytes were the block's. Meanwhile blocks
// are inserted and evicted, files are evicted, and chunks are given back.
func TestPeek_Concurrent(t *testing.T) {
	if !ordered {
		t.Skip("there is no Peek on this platform")
	}
	c := New(4 << 20)
	rounds := 200000
	if testing.Short() || testenv.Race {
		rounds = 20000
	}
	var stop atomic.Bool
	var writer, readers sync.WaitGroup
	want := func(i uint64) {
		k := Key{i % 3, i % 2000}
		if !holds(c, k) {
			add(c, k, 2000+int(i%4096))
		}
	}
	for i := range uint64(2000) {
		want(i)
	}
	writer.Go(func() {
		for i := uint64(2001); !stop.Load(); i++ {
			want(i)
			if i%2999 == 0 {
				c.EvictFile(i % 3)
			}
			if i%50000 == 0 {
				for f := range uint64(3) {
					c.EvictFile(f)
				}
			}
		}
	})
	var valid, invalid atomic.Int64
	for g := range 2 {
		readers.Go(func() {
			for i := range uint64(rounds) {
				n := (i*7 + uint64(g)) % 2000
				for f := range uint64(3) {
					k := Key{f, n}
					p := c.Peek(k)
					if p.Bytes == nil {
						continue
					}
					same := true
					for j := 0; j+16 <= len(p.Bytes); j += 256 {
						same = same && binary.LittleEndian.Uint64(p.Bytes[j:]) == k.File &&
							binary.LittleEndian.Uint64(p.Bytes[j+8:]) == k.Offset
					}
					if !p.Valid() {
						invalid.Add(1)
					} else if valid.Add(1); !same {
						t.Errorf("a valid look at the block of %v shows other bytes", k)
						return
					}
				}
			}
		})
	}
	readers.Wait()
	stop.Store(true)
	writer.Wait()
	t.Logf("%d looks were valid, %d were not", valid.Load(), invalid.Load())
	if valid.Load() == 0 {
		t.Error("no look was valid")
	}
	c.Close()
}

// A Peek that begins before the table grows finds blocks in the old table. If such a
// block was evicted, which takes it out of the new table only, the Peek is not valid.
func TestPeek_WhileTheTableGrows(t *testing.T) {
	if !ordered {
		t.Skip("there is no Peek on this platform")
	}
	const size = 1000
	rounds := 300
	if testing.Short() {
		rounds = 100
	}
	filler := make([]byte, size)
	var looks, valid int
	for round := range uint64(rounds) {
		c := New(minShardBytes)
		s := &c.shards[0]
		s.looseMax = 0 // all blocks are pieces of chunks, which Peek shows
		looked := Key{1, round}
		insert := func(k Key) {
			b := c.AllocAt(k, size)
			if k == looked {
				fillFor(b, k)
			} else {
				copy(b.Bytes(), filler)
			}
			c.Insert(k, b).Release()
		}
		insert(looked)
		next := uint64(0)
		for ; s.table.Load() == nil || !s.table.Load().crowded(); next++ {
			insert(Key{2, next})
		}
		var reader sync.WaitGroup
		begun, stop := make(chan struct{}), make(chan struct{})
		reader.Go(func() {
			close(begun)
			for {
				if p := c.Peek(looked); p.Bytes != nil {
					looks++
					file, offset := binary.LittleEndian.Uint64(p.Bytes), binary.LittleEndian.Uint64(p.Bytes[8:])
					if p.Valid() {
						if valid++; file != looked.File || offset != looked.Offset {
							t.Errorf("round %d: a valid look at the block of %v shows that of %v", round, looked, Key{file, offset})
						}
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		<-begun
		insert(Key{2, next}) // the table grows
		c.EvictFile(looked.File)
		for range 3 {
			next++
			insert(Key{2, next}) // one of them where the block was
		}
		close(stop)
		reader.Wait()
		if t.Failed() {
			break
		}
		c.Close()
	}
	t.Logf("%d looks, %d of them valid", looks, valid)
}

// sink keeps the compiler from leaving out a load.
var sink byte

// A Peek is not valid after its block was evicted, or after
// the chunk was given back. The memory can still be read.
func TestPeek_Evicted(t *testing.T) {
	if !ordered {
		t.Skip("there is no Peek on this platform")
	}
	c := New(4 << 20)
	var looks []Peek
	for i := range uint64(1000) {
		k := Key{1, i}
		c.Insert(k, c.AllocAt(k, 4000)).Release()
		if p := c.Peek(k); p.Bytes != nil {
			if len(p.Bytes) != 4000 {
				t.Fatalf("a look at %d bytes, want 4000", len(p.Bytes))
			}
			looks = append(looks, p)
		}
	}
	if len(looks) < 500 {
		t.Fatalf("%d looks", len(looks))
	}
	c.Close()
	for _, p := range looks {
		for i := 0; i < len(p.Bytes); i += 1000 {
			sink += p.Bytes[i]
		}
		if p.Valid() {
			t.Fatal("a look at a block that was evicted is valid")
		}
	}
}
