package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale"
)

// batchOf returns a batch of puts, such as "key=value", and deletions, such as "key".
func batchOf(t testing.TB, ops ...string) *shale.Batch {
	t.Helper()
	b := new(shale.Batch)
	for _, op := range ops {
		key, value, put := bytes.Cut([]byte(op), []byte("="))
		var err error
		if put {
			err = b.Put(key, value)
		} else {
			err = b.Delete(key)
		}
		mustNil(t, err)
	}
	return b
}

func TestCommand_Bytes(t *testing.T) {
	t.Parallel()
	data, err := encodePutIfAbsent([]byte("k"), []byte("v"))
	if got, want := fmt.Sprintf("%x", data), "020101"+"01016b0176"; err != nil || got != want {
		t.Errorf("encodePutIfAbsent = %s, %v; want %s", got, err, want)
	}
	data, err = encodeWrite(batchOf(t, "k=v"))
	if got, want := fmt.Sprintf("%x", data), "010101"+"01016b0176"; err != nil || got != want {
		t.Errorf("encodeWrite = %s, %v; want %s", got, err, want)
	}
	deletion, err := encodeDelete([][]byte{[]byte("k"), []byte("l")})
	if got, want := fmt.Sprintf("%x", deletion), "030102"+"00016b"+"00016c"; err != nil || got != want {
		t.Errorf("encodeDelete = %s, %v; want %s", got, err, want)
	}
	if kind, b, err := decodeCommand(deletion); err != nil || kind != kindDelete || b.Len() != 2 {
		t.Errorf("decodeCommand = %d, %v, %v", kind, b, err)
	}
	kind, b, err := decodeCommand(data)
	if err != nil || kind != kindWrite || b.Len() != 1 {
		t.Errorf("decodeCommand = %d, %v, %v", kind, b, err)
	}
}

func TestCommand_Refused(t *testing.T) {
	t.Parallel()
	last := append(bytes.Repeat([]byte{0xff}, 31), 0xfe) // the last key that is free, but for longer ones
	for _, key := range [][]byte{{}, {0xff}, reservedKey[:31], last, append(last, 0xff, 0xff)} {
		if _, err := encodePutIfAbsent(key, nil); err != nil {
			t.Errorf("key %x: %v", key, err)
		}
	}
	for _, key := range [][]byte{reservedKey, append(bytes.Clone(reservedKey), 0)} {
		var b shale.Batch
		mustNil(t, b.Delete(key))
		if _, err := encodeWrite(&b); !errors.Is(err, ErrReservedKey) {
			t.Errorf("delete of %x: %v, want ErrReservedKey", key, err)
		}
		if _, err := encodePutIfAbsent(key, nil); !errors.Is(err, ErrReservedKey) {
			t.Errorf("put of %x: %v, want ErrReservedKey", key, err)
		}
	}
	for _, b := range []*shale.Batch{nil, {}} {
		if _, err := encodeWrite(b); !errors.Is(err, shale.ErrBatchNotWritable) {
			t.Errorf("empty batch: %v", err)
		}
	}
	if _, err := encodeDelete(nil); !errors.Is(err, shale.ErrBatchNotWritable) {
		t.Errorf("deletion of nothing: %v", err)
	}
	if _, err := encodeDelete([][]byte{{'k'}, reservedKey}); !errors.Is(err, ErrReservedKey) {
		t.Errorf("deletion of a reserved key: %v, want ErrReservedKey", err)
	}
	if _, err := encodeDelete([][]byte{make([]byte, shale.MaxKeySize+1)}); !errors.Is(err, shale.ErrKeyTooLarge) {
		t.Errorf("deletion of a long key: %v", err)
	}
	for _, data := range []string{"\x03\x01\x01\x01\x01k\x01v", "\x04\x01\x01\x00\x01k", "\x00\x01\x01\x00\x01k"} {
		if kind, _, err := decodeCommand([]byte(data)); err == nil {
			t.Errorf("%x is taken for a command of kind %d", data, kind)
		}
	}
	if _, err := encodePutIfAbsent([]byte("k"), make([]byte, maxCommandSize)); !errors.Is(err, shale.ErrValueTooLarge) {
		t.Errorf("large value: %v", err)
	}
}

func FuzzCommand(f *testing.F) {
	for _, c := range []string{"", "\x01", "\x02\x01\x01\x01\x01k\x01v", "\x01\x01\x02\x00\x01k\x01\x01l\x00", "\x03\x01\x00", "\x03\x01\x02\x00\x01k\x00\x01l", "\x04\x01\x00"} {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, b, err := decodeCommand(data)
		if err != nil {
			return
		}
		// What decodes is written again as it was, but for varints that were longer than need be.
		again := b.AppendTo([]byte{kind})
		kind2, b2, err := decodeCommand(again)
		if err != nil || kind2 != kind || b2.Len() != b.Len() || !bytes.Equal(b2.AppendTo([]byte{kind}), again) {
			t.Errorf("%x is written again as %x: %v", data, again, err)
		}
	})
}
