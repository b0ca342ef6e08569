package peertest

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"hash/fnv"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
	peer "github.com/holiman/bloomfilter/v2"
	ours "github.com/shaledb/shale/bloom/compat/holiman"
)

// These are the files that the tests of package holiman read.
func TestHoliman_Golden(t *testing.T) {
	f, err := peer.NewWithKeys(9586, []uint64{0x123456789abcdef0, 2, 3 << 62, 4, math.MaxUint64, 6, 7 << 33})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		f.AddHash(xxhash.Sum64(key(i)))
	}
	plain, zipped, j := holimanForms(t, f)
	golden(t, "../holiman/testdata/peer-1000.bf", plain)
	golden(t, "../holiman/testdata/peer-1000.json", j)
	if *update { // other versions of Go compress to other bytes
		golden(t, "../holiman/testdata/peer-1000.bf.gz", zipped)
	}
	passed := 0
	for i := range 101_000 {
		if f.ContainsHash(xxhash.Sum64(key(i))) {
			passed++
		}
	}
	if passed != 1967 {
		t.Errorf("the peer answers maybe for %d of 101,000 keys; the test of package holiman says 1967", passed)
	}
}

// holimanForms returns what the peer writes.
func holimanForms(t *testing.T, f *peer.Filter) (plain, zipped, inJSON []byte) {
	t.Helper()
	plain, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := f.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	inJSON, err = json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return plain, b.Bytes(), inJSON
}

// The peer's filter and ours have the same bytes, and each reads the other's three forms with
// the same answers.
func TestHoliman(t *testing.T) {
	for _, c := range []struct{ bits, probes, keys uint64 }{{2, 1, 1}, {64, 2, 5}, {5003, 3, 300}, {1 << 19, 7, 50_000}, {700_001, 20, 20_000}} {
		theirs, err := peer.New(c.bits, c.probes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(c.keys) {
			h := fnv.New64a()
			_, _ = h.Write(key(i))
			theirs.Add(h)
		}
		ask := func(f *peer.Filter) func(key []byte) bool {
			return func(key []byte) bool {
				h := fnv.New64a()
				_, _ = h.Write(key)
				return f.Contains(h)
			}
		}
		plain, zipped, inJSON := holimanForms(t, theirs)

		opened, err := ours.Open(plain)
		if err != nil {
			t.Fatal(err)
		}
		made, err := ours.NewFilter(ours.Options{Bits: c.bits, Seeds: opened.Seeds(), Hash: ours.Sum64(fnv.New64a)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(c.keys) {
			if err := made.Add(key(i)); err != nil {
				t.Fatal(err)
			}
		}
		sameBytes(t, "holiman", made, plain)
		if j, err := json.Marshal(made); err != nil || !bytes.Equal(j, inJSON) {
			t.Errorf("our JSON is another: %v", err)
		}
		var fromGzip, fromJSON ours.Filter
		if n, err := fromGzip.ReadFrom(bytes.NewReader(zipped)); err != nil || n != int64(len(zipped)) {
			t.Fatalf("ReadFrom = %d of %d, %v", n, len(zipped), err)
		}
		if err := json.Unmarshal(inJSON, &fromJSON); err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]*ours.Filter{"plain bytes": opened, "gzip": &fromGzip, "JSON": &fromJSON} {
			f.SetHash(ours.Sum64(fnv.New64a))
			sameBytes(t, what, f, plain)
			sameAnswers(t, "ours of the peer's "+what, f.MayContain, ask(theirs))
		}

		ourPlain, err := made.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var ourGzip bytes.Buffer
		if _, err := made.WriteTo(&ourGzip); err != nil {
			t.Fatal(err)
		}
		ourJSON, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		var a, b, d peer.Filter
		if err := a.UnmarshalBinary(ourPlain); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadFrom(&ourGzip); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(ourJSON, &d); err != nil {
			t.Fatal(err)
		}
		sameAnswers(t, "the peer's of our plain bytes", made.MayContain, ask(&a))
		sameAnswers(t, "the peer's of our gzip", made.MayContain, ask(&b))
		sameAnswers(t, "the peer's of our JSON", made.MayContain, ask(&d))
		if a.N() != made.Count() {
			t.Errorf("the peer reads that %d keys were added, not %d", a.N(), made.Count())
		}
	}
}

// What gob writes of one filter it reads as the other.
func TestHoliman_Gob(t *testing.T) {
	theirs, err := peer.New(1000, 3)
	if err != nil {
		t.Fatal(err)
	}
	theirs.AddHash(5)
	plain, _, _ := holimanForms(t, theirs)
	var b bytes.Buffer
	var read ours.Filter
	var readBack peer.Filter
	for _, of := range []struct{ from, to any }{{theirs, &read}, {&read, &readBack}} {
		if err := gob.NewEncoder(&b).Encode(of.from); err != nil {
			t.Fatal(err)
		}
		if err := gob.NewDecoder(&b).Decode(of.to); err != nil {
			t.Fatalf("%T as %T: %v", of.from, of.to, err)
		}
	}
	sameBytes(t, "gob", &read, plain)
	sameBytes(t, "gob, and back", &readBack, plain)
}
