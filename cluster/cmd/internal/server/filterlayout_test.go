package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// storedFilters are filters as programs have left them: the value under the name, and pieces of the generation in it by their
// index. Both had the items a and b, and room for two.
var storedFilters = map[string]struct {
	value  string
	pieces []string
}{
	"version 1": {
		"6601508ae72348e8c03d000000000000000002000000000000000100000005000000020000000800000000000000400000000000000002000000000000007b14ae47e17a743fe9862fb2350e264008000000020000000000000000",
		[]string{"0244208c105209210000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"},
	},
	"version 2": {
		"6602f4691b312d079ad700000000000000000200000000000000010000000500000002000000400000000000000000020000000000000200000000000000fa7e6abc7493783f0c9ae6e4d16526400700000002000000000000000002",
		[]string{"60000200000010000000000000000820400000000200000000000004000000000000000080001000000000000000000000000004000080000000000000000004"},
	},
}

// Filters that earlier programs have stored are read, grow, and keep their layout.
func TestFilter_Stored(t *testing.T) {
	for name, stored := range storedFilters {
		s, f := setup(t)
		c := s.newClient()
		value, err := hex.DecodeString(stored.value)
		if err != nil {
			t.Fatal(err)
		}
		put := func(key, value []byte) {
			if err := f.db.Put(key, value); err != nil {
				t.Fatal(err)
			}
		}
		put([]byte("kf"), value)
		for i, one := range stored.pieces {
			piece, err := hex.DecodeString(one)
			if err != nil {
				t.Fatal(err)
			}
			put(append([]byte("p\x00\x01f"), append(value[2:10:10], 0, 0, 0, byte(i))...), piece)
		}
		c.want(t, "BF.MEXISTS f a b c", "*3|:1|:1|:0")
		for i := range 100 {
			c.say("BF.ADD", "f", fmt.Sprint(i))
		}
		c.want(t, "BF.MEXISTS f a b 0 1 99", "*5|:1|:1|:1|:1|:1")
		after, err := f.db.Get([]byte("kf"))
		if err != nil || after[1] != value[1] || string(after[2:10]) != string(value[2:10]) {
			t.Errorf("%s: the value has become %x, %v", name, after, err)
		}
	}
}

// The first items of a filter leave these bytes.
func TestFilter_Golden(t *testing.T) {
	for name, reserve := range map[string]string{"version 1": "BF.RESERVE f 0.01 2 COMPATIBLE", "version 2": "BF.RESERVE f 0.01 2"} {
		s, f := setup(t)
		c := s.newClient()
		c.want(t, reserve, "+OK")
		c.want(t, "BF.MADD f a b", "*2|:1|:1")
		value, err := f.db.Get([]byte("kf"))
		if err != nil {
			t.Fatal(err)
		}
		want := storedFilters[name]
		// The generation is drawn. Bits an item are a logarithm, whose last bit is each processor's; nothing is computed from them.
		fixed := func(value string) string { return value[:4] + value[20:140] + value[156:] }
		if got := hex.EncodeToString(value); fixed(got) != fixed(want.value) {
			t.Errorf("%s: the value is %s, want %s", name, got, want.value)
		}
		for i, one := range want.pieces {
			piece, err := f.db.Get(append([]byte("p\x00\x01f"), append(value[2:10:10], 0, 0, 0, byte(i))...))
			if got := hex.EncodeToString(piece); got != one {
				t.Errorf("%s: piece %d is %s, %v, want %s", name, i, got, err, one)
			}
		}
	}
}

// A dump of a filter that is not compatible is refused by what loads those of RedisBloom, and comes back from this server as it was.
func TestFilter_DumpOfLines(t *testing.T) {
	client := serve(t)
	ctx := t.Context()
	for i := range 1000 {
		if err := client.BFAdd(ctx, "f", i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	dumpOf := func(name string) (dump []redis.ScanDump) {
		for at := int64(0); ; {
			one, err := client.BFScanDump(ctx, name, at).Result()
			if err != nil {
				t.Fatal(err)
			}
			if at = one.Iter; at == 0 {
				return dump
			}
			dump = append(dump, one)
		}
	}
	dump := dumpOf("f")
	for _, one := range dump {
		if err := client.BFLoadChunk(ctx, "copy", one.Iter, one.Data).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if again := dumpOf("copy"); len(dump) < 3 || fmt.Sprint(again) != fmt.Sprint(dump) {
		t.Errorf("a dump of %d chunks comes back as %d", len(dump), len(again))
	}
	for i := range 1000 {
		if there, err := client.BFExists(ctx, "copy", i).Result(); err != nil || !there {
			t.Fatalf("item %d is not in the copy: %v", i, err)
		}
	}
	if isNew, err := client.BFAdd(ctx, "copy", "another").Result(); err != nil || !isNew {
		t.Errorf("an item for the copy: %v, %v", isNew, err)
	}
	if err := new(redisbloom.Loader).LoadChunk(1, []byte(dump[0].Data)); !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("a filter of RedisBloom loads the header: %v", err)
	}
	if err := client.BFLoadChunk(ctx, "other", 1, strings.TrimSuffix(dump[0].Data, "\x02")).Err(); err == nil {
		t.Error("the header is taken without its last byte")
	}
}
