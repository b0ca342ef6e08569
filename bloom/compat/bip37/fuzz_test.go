package bip37

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/fuzzing"
)

// limit is the memory for the largest filter that may exist.
var limit = fuzzing.Limit{Bytes: 48 << 10, PerByte: 2}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"testdata/hundred.filterload", "testdata/large.filterload"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte("one"))
	}
	f.Add(unhex("03614e9b050000000000000001"), unhex("99108ad8ed9bb6274d3980bab5a85c048f0950c8"))
	f.Fuzz(func(t *testing.T, b, element []byte) {
		var stream, whole Filter
		var n int64
		var streamErr, wholeErr error
		limit.Check(t, len(b), func() { n, streamErr = stream.ReadFrom(bytes.NewReader(b)) })
		limit.Check(t, len(b), func() { wholeErr = whole.UnmarshalBinary(b) })
		if (wholeErr == nil) != (streamErr == nil && n == int64(len(b))) {
			t.Fatalf("ReadFrom: %d of %d, %v; UnmarshalBinary: %v", n, len(b), streamErr, wholeErr)
		}
		for _, err := range []error{streamErr, wholeErr} {
			if err != nil && !errors.Is(err, bloom.ErrDamaged) {
				t.Fatalf("another error: %v", err)
			}
		}
		if streamErr != nil {
			if !stream.MayContain(element) {
				t.Fatal("what was not read denies an element")
			}
			return
		}
		if !bytes.Equal(mustMarshal(t, &stream), b[:n]) {
			t.Fatal("written again it is another")
		}
		if p := stream.FPR(); !(p >= 0 && p <= 1) {
			t.Fatalf("FPR() = %v", p)
		}
		stream.Add(element)
		if !stream.MayContain(element) {
			t.Fatal("an added element is denied")
		}
	})
}

// transactionLimit is the memory for inputs and outputs.
var transactionLimit = fuzzing.Limit{Bytes: 16 << 10, PerByte: 6}

func FuzzParseTransaction(f *testing.F) {
	for _, s := range []string{paid, spends, generated, address, witness} {
		f.Add(unhex(s), []byte("element"))
	}
	f.Fuzz(func(t *testing.T, b, element []byte) {
		var tx *Transaction
		var err error
		transactionLimit.Check(t, len(b), func() { tx, err = ParseTransaction(b) })
		if err != nil {
			if !errors.Is(err, ErrTransaction) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		for _, flags := range []Flags{UpdateNone, UpdateAll, UpdateP2PubKeyOnly} {
			filter := withElements(t, flags, element)
			before := mustMarshal(t, filter)
			found := filter.MatchAndUpdate(tx)
			if again := filter.MatchAndUpdate(tx); found && !again {
				t.Fatal("it does not match any more")
			}
			if !found && !bytes.Equal(mustMarshal(t, filter), before) {
				t.Fatal("a transaction that does not match changes the filter")
			}
			if !withElements(t, flags, tx.TxID[:]).MatchAndUpdate(tx) {
				t.Fatal("the id does not match")
			}
		}
		// Written again without witnesses and with short parts, it has the same id.
		if len(tx.Inputs) == 0 || len(tx.Inputs) > 252 || len(tx.Outputs) > 252 || b[4] == 0 {
			return
		}
		for i := range tx.Inputs {
			if len(tx.Inputs[i].Script) > 252 {
				return
			}
		}
		for i := range tx.Outputs {
			if len(tx.Outputs[i].Script) > 252 {
				return
			}
		}
		if got := transaction(tx.Inputs, tx.Outputs); len(got) != len(b) {
			t.Fatalf("%d bytes of %d were read", len(got), len(b))
		}
	})
}
