package damage

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// patch applies edits of seven bytes each, written as a fuzzer may like them:
// what to do, where, how far, and with which byte.
func patch(data, edits []byte) []byte {
	for ; len(edits) >= 7; edits = edits[7:] {
		at := int(binary.LittleEndian.Uint16(edits[1:]))
		n := int(binary.LittleEndian.Uint16(edits[3:]))
		to := int(binary.LittleEndian.Uint16(edits[5:]))
		if len(data) == 0 {
			return data
		}
		at %= len(data)
		n = min(n, len(data)-at)
		switch edits[0] % 6 {
		case 0:
			data[at] ^= byte(to)
		case 1:
			data[at] = byte(to)
		case 2:
			clear(data[at : at+n])
		case 3:
			data = data[:at]
		case 4:
			copy(data[min(to, len(data)):], slices.Clone(data[at:at+n]))
		case 5:
			data = slices.Insert(data, at, slices.Clone(data[at:at+n])...)
		}
	}
	return data
}

// ownBytes is the number of no file: the fuzzer's bytes are taken as they are.
const ownBytes = uint8(255)

// FuzzOpenDir opens a store in which one file is edited, or replaced by another that is edited, or by the
// fuzzer's bytes: every answer is right or an error that names the file, in bounded time and memory.
//
// No input holds bytes of a file of the store. The store of another process of the fuzzer may differ from
// this one in the order of what went on in the background, and its manifest in place of this one's
// is right and can't be told from it.
func FuzzOpenDir(f *testing.F) {
	testenv.SkipRace(f)
	b := newBadStore(f, 1, closed)
	names := slices.Sorted(maps.Keys(b.files))
	slices.SortStableFunc(names, func(x, y string) int { // few tables at the end
		return max(strings.Index(x, ".sst"), strings.Index(x, ".flt")) - max(strings.Index(y, ".sst"), strings.Index(y, ".flt"))
	})
	for i := range names {
		for _, edits := range []string{"", "\x00\x10\x00\x00\x00\x01\x00", "\x02\x00\x02\x00\x02\x00\x00", "\x03\x80\x00\x00\x00\x00\x00",
			"\x04\x00\x00\x00\x02\x00\x04", "\x05\x00\x02\x00\x02\x00\x00", "\x01\x04\x00\x00\x00\xff\x00"} {
			f.Add(uint8(i), uint8(i), []byte(edits))
		}
		f.Add(uint8(i), uint8(i+1), []byte(nil))
		f.Add(uint8(i), ownBytes, []byte("shale"))
	}
	f.Fuzz(func(t *testing.T, which, from uint8, data []byte) {
		file := names[int(which)%len(names)]
		if len(data) > 1<<20 {
			return
		}
		if from != ownBytes {
			data = patch([]byte(b.files[names[int(from)%len(names)]]), data[:min(len(data), 7*16)])
		}
		d := b.edit(file, change{"fuzzed", func([]byte) []byte { return data }})
		if strings.HasPrefix(string(data), b.files[file]) || strings.HasSuffix(file, ".wal") {
			d.what = "longer" // what lies behind the end, or between header and records, need not be noticed
		}
		storeLimit.Once(t, 0, "shale.Open, a read or Close", func() {
			if _, err := b.try(t, d, len(data)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		})
	})
}
