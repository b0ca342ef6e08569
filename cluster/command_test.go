package cluster

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

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
	data, err := encodePutIfAbsent([]byte("k"), []byte("v"), time.Time{})
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
	if c, err := decodeCommand(deletion); err != nil || c.kind != kindDelete || c.batch.Len() != 2 {
		t.Errorf("decodeCommand = %+v, %v", c, err)
	}
	if c, err := decodeCommand(data); err != nil || c.kind != kindWrite || c.batch.Len() != 1 {
		t.Errorf("decodeCommand = %+v, %v", c, err)
	}
	var b shale.Batch
	mustNil(t, shale.Op{Kind: shale.OpPut, Key: []byte("k"), Value: []byte("v"), ExpiresAt: time.UnixMilli(0x0403)}.Apply(&b))
	timed, err := encodeCommand(kindPutIfAbsent, &b, 0x0201)
	const times = "0000000000000000" + "0102000000000000" // the leader has not set its own yet
	if got, want := fmt.Sprintf("%x", timed), "05"+times+"020101"+"04016b"+"07"+"030400000000"+"76"; err != nil || got != want {
		t.Errorf("encodeCommand of a value that expires = %s, %v; want %s", got, err, want)
	}
	timed[1] = 7
	if c, err := decodeCommand(timed); err != nil || c.kind != kindPutIfAbsent || c.time != 7 || c.present != 0x0201 || c.batch.Len() != 1 {
		t.Errorf("decodeCommand = %+v, %v", c, err)
	}
	if c, err := decodeCommand(timed[:timedSize]); err != nil || c.kind != kindTimed || c.time != 7 || c.batch.Len() != 0 {
		t.Errorf("decodeCommand of nothing but the time = %+v, %v", c, err)
	}
	writes := batchOf(t, "j=1")
	for _, until := range []int64{0x0203, 0x0403} { // the second put of k has an end of its own
		mustNil(t, writes.Add(shale.Op{Kind: shale.OpPut, Key: []byte("k"), Value: []byte("v"), ExpiresAt: time.UnixMilli(until)}))
	}
	ends, err := encodeUpdate(new(observed), writes, 0x0201, map[string]int64{"k": 0x0403, "j": 9, "absent": 9})
	if got := fmt.Sprintf("%x", ends); err != nil || got != endsBytes {
		t.Errorf("encodeUpdate with an end = %s, %v; want %s", got, err, endsBytes)
	}
	if c, err := decodeCommand(ends); err != nil || c.kind != kindUpdate || c.present != 0x0201 || !reflect.DeepEqual(c.ends, []int{2}) || c.batch.Len() != 3 {
		t.Errorf("decodeCommand = %+v, %v", c, err)
	}
	state := model{"a": "1", "b": "2", "c": "3"}
	o := observed{[]observedKey{state.key("a"), state.key("absent")}, []observedRange{state.scan("b", "d")}}
	update, err := encodeUpdate(&o, batchOf(t, "k=v"), 0, nil)
	if got := fmt.Sprintf("%x", update); err != nil || got != updateBytes {
		t.Errorf("encodeUpdate = %s, %v; want %s", got, err, updateBytes)
	}
	if c, err := decodeCommand(update); err != nil || c.kind != kindUpdate || c.batch.Len() != 1 || !reflect.DeepEqual(c.observed, o) {
		t.Errorf("decodeCommand = %+v, %v; want %+v", c, err, o)
	}
}

// updateBytes is the command of docs/FORMAT.md: SHA-256 of "1", 0, and SHA-256 of 01 "b" 01 "2" 01 "c" 01 "3".
const updateBytes = "04" +
	"02" + "0161" + "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" +
	"06616273656e74" + "0000000000000000000000000000000000000000000000000000000000000000" +
	"01" + "0162" + "0164" + "08" + "200260bc06376682cd65d1c5169b33b4006d90796239c7ce8a49351d73d1df17" +
	"0101" + "01016b0176"

// endsBytes is the other command of docs/FORMAT.md.
const endsBytes = "06" + "0000000000000000" + "0102000000000000" + "0102" +
	"04" + "00" + "00" +
	"0103" + "01016a0131" + "04016b07" + "030200000000" + "76" + "04016b07" + "030400000000" + "76"

// A kind of a newer program is refused, and so no member forwards, takes or applies it.
func TestCommand_Newer(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"\x07\x00", "\x05" + strings.Repeat("\x00", 16) + "\x07"} {
		_, err := decodeCommand([]byte(data))
		if !errors.Is(err, shale.ErrFormatTooNew) || !strings.Contains(err.Error(), "kind 7; update this member's program") {
			t.Errorf("%x: %v", data, err)
		}
	}
}

func TestCommand_Refused(t *testing.T) {
	t.Parallel()
	free := append(bytes.Repeat([]byte{0xff}, 31), 0xfe) // the last key that is free, but for longer ones
	for _, key := range [][]byte{{}, {0xff}, reservedKey[:31], free, append(free, 0xff, 0xff)} {
		if _, err := encodePutIfAbsent(key, nil, time.Time{}); err != nil {
			t.Errorf("key %x: %v", key, err)
		}
	}
	for _, key := range [][]byte{reservedKey, append(bytes.Clone(reservedKey), 0)} {
		var b shale.Batch
		mustNil(t, b.Delete(key))
		if _, err := encodeWrite(&b); !errors.Is(err, ErrReservedKey) {
			t.Errorf("delete of %x: %v, want ErrReservedKey", key, err)
		}
		if _, err := encodePutIfAbsent(key, nil, time.Time{}); !errors.Is(err, ErrReservedKey) {
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
	sums, batch := strings.Repeat("\x00", 32), "\x01\x01\x00\x01k"
	last := string(reservedKey)
	for _, data := range []string{
		"\x03\x01\x01\x01\x01k\x01v", "\x05\x01\x01\x00\x01k", "\x00\x01\x01\x00\x01k",
		"\x04", "\x04\x00", "\x04\x01\x01k" + sums[1:], "\x04\x01\x20" + last + sums + "\x00" + batch, // the group's key
		"\x04\x00\x01\x01k\x01k\x00" + sums + batch,                // an empty range
		"\x04\x00\x01\x01k\x21" + last + "\x00\x00" + sums + batch, // up to the group's keys
		"\x04\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01k" + sums,
		"\x01\x01\x01\x04\x01k\x07" + sums[:6] + "v", // a value that expires, and no time
		"\x05" + sums[:15], "\x05" + sums[:16] + "\x00", "\x05" + sums[:16] + "\x05" + sums[:16], // less than two times; two commands
		"\x05" + sums[:7] + "\x80" + sums[:8], "\x05" + sums[:15] + "\x80", // times that are none
		"\x06" + sums[:15], "\x06" + sums[:16], "\x06" + sums[:16] + "\x00", "\x06" + sums[:16] + "\x01\x00", // no command
		"\x06" + sums[:16] + "\x02\x00\x01\x01\x01\x00\x01k",                                   // ends of more operations than there are
		"\x06" + sums[:16] + "\x01\x00\x01\x01\x02\x01\x01k\x00\x04\x01l\x07" + sums[:6] + "v", // of a put that has none
		"\x06" + sums[:16] + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x01\x01\x04\x01k\x07" + sums[:6] + "v",
	} {
		if c, err := decodeCommand([]byte(data)); err == nil {
			t.Errorf("%x is taken for a command of kind %d", data, c.kind)
		}
	}
	if _, err := decodeCommand([]byte("\x04\x00\x01\x01k\x20" + last + "\x00" + sums + batch)); err != nil {
		t.Errorf("a scan of all from a key up: %v", err)
	}
	if _, err := encodePutIfAbsent([]byte("k"), make([]byte, maxCommandSize), time.Time{}); !errors.Is(err, shale.ErrValueTooLarge) {
		t.Errorf("large value: %v", err)
	}
}

func FuzzCommand(f *testing.F) {
	for _, c := range []string{"", "\x01", "\x02\x01\x01\x01\x01k\x01v", "\x01\x01\x02\x00\x01k\x01\x01l\x00", "\x03\x01\x00", "\x03\x01\x02\x00\x01k\x00\x01l", "\x05\x01\x00"} {
		f.Add([]byte(c))
	}
	update, err := hex.DecodeString(updateBytes)
	mustNil(f, err)
	f.Add(update)
	times := strings.Repeat("\x00", timedSize-1)
	ends, err := hex.DecodeString(endsBytes)
	mustNil(f, err)
	f.Add(ends)
	f.Add([]byte("\x05" + times))
	f.Add([]byte("\x05" + times + "\x02\x01\x01\x04\x01k\x07" + times[:6] + "v"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeCommand(data)
		if err != nil {
			return
		}
		// What decodes is written again as it was, but for varints that were longer than need be.
		bytesOf := func(c command) []byte {
			var b []byte
			if data[0] == kindTimed || data[0] == kindEnds {
				b = appendTimed(b, c.time, c.present)
				b[0] = data[0]
			}
			if data[0] == kindEnds {
				b = appendEnds(b, c.ends)
			}
			if c.kind == kindTimed {
				return b
			}
			b = append(b, c.kind)
			if c.kind == kindUpdate {
				b = c.observed.appendTo(b)
			}
			return c.batch.AppendTo(b)
		}
		again := bytesOf(c)
		c2, err := decodeCommand(again)
		if err != nil || c2.kind != c.kind || c2.batch.Len() != c.batch.Len() || !bytes.Equal(bytesOf(c2), again) {
			t.Errorf("%x is written again as %x: %v", data, again, err)
		}
	})
}
