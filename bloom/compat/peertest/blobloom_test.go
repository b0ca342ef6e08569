package peertest

import (
	"bytes"
	"testing"

	"github.com/cespare/xxhash/v2"
	peer "github.com/greatroar/blobloom"
	ours "github.com/shaledb/shale/bloom/compat/blobloom"
)

// blobloomPeer returns the peer's filter of some keys, and what it dumps.
func blobloomPeer(t *testing.T, bits uint64, hashes, keys int, comment string) (*peer.Filter, []byte) {
	t.Helper()
	f := peer.New(bits, hashes)
	for i := range keys {
		f.Add(xxhash.Sum64(key(i)))
	}
	var b bytes.Buffer
	if _, err := peer.Dump(&b, f, comment); err != nil {
		t.Fatal(err)
	}
	return f, b.Bytes()
}

// This is the file that the tests of package blobloom read.
func TestBlobloom_Golden(t *testing.T) {
	f, b := blobloomPeer(t, 10_000, 7, 1000, "xxhash")
	golden(t, "../blobloom/testdata/peer-1000.blob", b)
	passed := 0
	for i := range 101_000 {
		if f.Has(xxhash.Sum64(key(i))) {
			passed++
		}
	}
	if passed != 1914 {
		t.Errorf("the peer answers maybe for %d of 101,000 keys; the test of package blobloom says 1914", passed)
	}
}

// The peer's filter and ours have the same bytes, and each reads the other's with the same
// answers.
func TestBlobloom(t *testing.T) {
	for _, c := range []struct {
		bits   uint64
		hashes int
		keys   int
	}{{1, 0, 10}, {5000, 2, 300}, {200_000, 8, 20_000}, {1_000_000, 15, 50_000}} {
		theirs, b := blobloomPeer(t, c.bits, c.hashes, c.keys, "a comment")
		made, err := ours.NewFilter(ours.Options{Bits: c.bits, Hashes: c.hashes, Hash: xxhash.Sum64, Comment: "a comment"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.keys {
			if err := made.Add(key(i)); err != nil {
				t.Fatal(err)
			}
		}
		sameBytes(t, "blobloom", made, b)

		opened, err := ours.Open(b)
		if err != nil {
			t.Fatal(err)
		}
		opened.SetHash(xxhash.Sum64)
		sameAnswers(t, "ours of the peer's bytes", opened.MayContain, func(key []byte) bool { return theirs.Has(xxhash.Sum64(key)) })
		if n := theirs.Cardinality(); n != opened.EstimatedCount() && (n-opened.EstimatedCount())/n > 1e-12 {
			t.Errorf("EstimatedCount() = %v, the peer says %v", opened.EstimatedCount(), n)
		}

		var file bytes.Buffer
		if _, err := made.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		loader, err := peer.NewLoader(&file)
		if err != nil || loader.Comment != "a comment" {
			t.Fatalf("the peer reads the comment %q, %v", loader.Comment, err)
		}
		read, err := loader.Load(nil)
		if err != nil || !read.Equals(theirs) {
			t.Fatalf("the peer reads another filter: %v", err)
		}
		sameAnswers(t, "the peer's of our bytes", made.MayContain, func(key []byte) bool { return read.Has(xxhash.Sum64(key)) })
	}
}
