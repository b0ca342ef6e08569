package bitsandblooms

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/fuzzing"
)

// jsonLimit includes what encoding/json and base64 need.
var jsonLimit = fuzzing.Limit{Bytes: 32 << 10, PerByte: 32}

func FuzzUnmarshalJSON(f *testing.F) {
	b, err := os.ReadFile("testdata/thirty.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "key-0")
	f.Add([]byte(`{"m":1,"k":1,"b":"AAAAAAAAAAEAAAAAAAAAAQ=="}`), "")
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		var made Filter
		var err error
		jsonLimit.Check(t, len(b), func() { err = made.UnmarshalJSON(b) })
		if err != nil {
			if !errors.Is(err, bloom.ErrDamaged) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		written, err := made.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var again Filter
		if err := again.UnmarshalJSON(written); err != nil || !bytes.Equal(filtertest.Marshal(t, &again), filtertest.Marshal(t, &made)) {
			t.Fatalf("written again it is another: %v", err)
		}
		use(t, &made, key)
	})
}

func use(t *testing.T, f *Filter, key string) {
	f.EstimatedCount()
	if p := f.FPR(); !(p >= 0 && p <= 1) {
		t.Fatalf("FPR() = %v", p)
	}
	if there := f.MayContainString(key); f.CheckAndAdd([]byte(key)) != there || !f.MayContainString(key) {
		t.Fatal("an added key is denied, or CheckAndAdd tells otherwise")
	}
}
