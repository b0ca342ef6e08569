// Package testkeys has the kinds of keys that tests store in filters, and ask
// filters for. It is for tests only.
package testkeys

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// maxLen is the length in bytes of the longest key that a store takes.
const maxLen = 1<<16 - 1

// A Kind is a kind of key, such as decimal numbers or paths. It either computes
// keys or has lists of them.
type Kind struct {
	Name string
	// Few is the number of keys that is enough, or 0. It is set if the keys are
	// long, or if there are no more.
	Few int

	// key computes key number i. Different i give different keys. In most kinds
	// another seed gives other keys.
	key func(seed uint64, i int) []byte
	// present and absent are the lists of a kind without key.
	present, absent [][]byte
}

// Make returns present keys to store and absent other keys to ask for, or fewer if
// the kind does not have as many. No key comes twice among all of them. The same
// arguments give the same keys.
func (k Kind) Make(seed uint64, present, absent int) (p, a [][]byte) {
	if k.Few > 0 {
		present, absent = min(present, k.Few), min(absent, k.Few)
	}
	if k.key == nil {
		return choose(k.present, seed, present), choose(k.absent, seed, absent)
	}
	// Even numbers are stored. So the keys that are asked for lie between stored ones.
	for i := range present {
		p = append(p, k.key(seed, 2*i))
	}
	for i := range absent {
		a = append(a, k.key(seed, 2*i+1))
	}
	return p, a
}

// choose returns n of the keys at random, or all if there are fewer.
func choose(keys [][]byte, seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	chosen := make([][]byte, 0, min(n, len(keys)))
	for _, i := range rng.Perm(len(keys))[:min(n, len(keys))] {
		chosen = append(chosen, keys[i])
	}
	return chosen
}

// Made returns the kinds that compute their keys.
func Made() []Kind {
	format := func(f string) func(uint64, int) []byte {
		return func(seed uint64, i int) []byte { return fmt.Appendf(nil, f, from(seed, i)) }
	}
	return []Kind{
		{Name: "random", key: func(seed uint64, i int) []byte { return binary.BigEndian.AppendUint64(nil, scatter(seed, i)) }},
		{Name: "random lengths", key: randomLength},
		{Name: "decimal", key: format("user%012d")},
		{Name: "hexadecimal", key: format("k%015x")},
		{Name: "digits alone", key: format("%d")},
		{Name: "big-endian", key: func(seed uint64, i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(from(seed, i))) }},
		{Name: "little-endian", key: func(seed uint64, i int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(from(seed, i))) }},
		{Name: "paths", key: func(seed uint64, i int) []byte {
			i = from(seed, i)
			return fmt.Appendf(nil, "tenant/%03d/orders/%07d/items/%d", i%97, i/7, i%7)
		}},
		{Name: "times", key: func(seed uint64, i int) []byte {
			i = from(seed, i)
			return fmt.Appendf(nil, "2031-%02d-%02dT%02d:%02d:%02d.%06dZ", 1+i%12, 1+i/12%28, i%24, i/24%60, i/1440%60, i)
		}},
		{Name: "zeros and a number", key: func(seed uint64, i int) []byte {
			i = from(seed, i)
			return append([]byte("row\x00\x00\x00\x00\x00\x00"), string(rune(i%0xd800))+string(rune(i/0xd800))...)
		}},
		{Name: "prefixes", key: prefixes},
		{Name: "one 0x00 or 0xff repeated", Few: 2000, key: func(_ uint64, i int) []byte {
			// The first key is the empty one. Keys 2n and 2n + 1 have the same
			// byte, and one of them is stored.
			return bytes.Repeat([]byte{byte(i & 2 >> 1 * 0xff)}, i)
		}},
		{Name: "long", Few: 400, key: long},
	}
}

// from adds to i a start that depends on the seed.
func from(seed uint64, i int) int { return int(seed%1_000_000)*2 + i }

// scatter turns a number into one that looks random. Different i give different results.
func scatter(seed uint64, i int) uint64 {
	h := seed + uint64(i)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// randomLength makes keys of 6 to 69 random bytes.
func randomLength(seed uint64, i int) []byte {
	h := scatter(seed, i)
	key := binary.LittleEndian.AppendUint64(nil, h)[2:]
	key = binary.LittleEndian.AppendUint32(key[:2], uint32(i)) // so that no two keys are equal
	for n := int(h & 63); n > 0; n-- {
		h = h*6364136223846793005 + 1442695040888963407
		key = append(key, byte(h>>56))
	}
	return key
}

// prefixes makes chains of keys, in which each key begins with the one before.
func prefixes(seed uint64, i int) []byte {
	const links = 48
	head := binary.BigEndian.AppendUint64(nil, scatter(seed, i/links))
	for n := range uint64(links) {
		head = append(head, byte(scatter(seed, i/links)>>(n%56)))
	}
	return head[:8+i%links]
}

// long makes keys of up to maxLen bytes. They differ at the end, in the middle,
// or only in their length.
func long(seed uint64, i int) []byte {
	n := maxLen - i/3*37
	key := bytes.Repeat([]byte("a long key "), maxLen/11+1)[:n]
	switch i % 3 {
	case 0:
		binary.BigEndian.PutUint64(key[n-8:], scatter(seed, i))
	case 1:
		binary.BigEndian.PutUint64(key[n/2:], scatter(seed, i))
	}
	return key
}
