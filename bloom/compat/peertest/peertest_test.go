package peertest

import (
	"bytes"
	"encoding"
	"flag"
	"os"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of the packages that are tested here")

// asked is how many keys are asked for in each comparison, those that were added first.
const asked = 100_000

func key(i int) []byte { return strconv.AppendInt([]byte("key-"), int64(i), 10) }

// golden compares what a peer wrote with a file in the testdata of one of our packages, or
// with -update writes it.
func golden(t *testing.T, path string, b []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("the peer writes %d other bytes than %s has", len(b), path)
	}
}

// sameBytes compares what f is written as with what the peer wrote.
func sameBytes(t *testing.T, what string, f encoding.BinaryMarshaler, peer []byte) {
	t.Helper()
	if b, err := f.MarshalBinary(); err != nil || !bytes.Equal(b, peer) {
		t.Errorf("%s: we write %d bytes, %v, and the peer writes %d others", what, len(b), err, len(peer))
	}
}

// sameAnswers asks both for the same keys, of which some were added.
func sameAnswers(t *testing.T, what string, ours, peer func(key []byte) bool) {
	t.Helper()
	yes, differing := 0, 0
	for i := range asked {
		k := key(i)
		want := peer(k)
		if want {
			yes++
		}
		if ours(k) != want {
			differing++
		}
	}
	if differing > 0 || yes == 0 {
		t.Errorf("%s: %d of %d answers differ, %d are yes", what, differing, asked, yes)
	}
	t.Logf("%s: %d answers, %d of them yes, %d differ", what, asked, yes, differing)
}
